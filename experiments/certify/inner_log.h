#pragma once

#include <utility>
#include <vector>

#include "sim/emulated/watch.h"

namespace periscope {

/// Keeps what an emulated run tells about numbers inside its ops.
class InnerLog final : public Watch {
 public:
  struct Record {
    Tensor parameter;  ///< the op's matrix or gain; of ops that have none, that of the op before
    Inner inner;
    std::vector<double> magnitudes;
  };

  void on_inner(const Tensor* parameter, Inner inner, std::span<const double> magnitudes) override {
    if (parameter != nullptr) last_ = *parameter;
    records_.push_back({last_, inner, {magnitudes.begin(), magnitudes.end()}});
  }
  /// What was told since the last call.
  std::vector<Record> take() { return std::exchange(records_, {}); }

 private:
  Tensor last_;
  std::vector<Record> records_;
};

}  // namespace periscope
