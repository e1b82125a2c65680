#pragma once

#include <map>
#include <vector>

#include "sim/model/weights.h"

namespace periscope::soundness {

/// A parameter as plain numbers, row-major.
struct Numbers {
  Tensor::Index rows = 0;
  Tensor::Index cols = 0;
  std::vector<double> values;
};

/// Weights that are kept in memory: the same tensor at every call, so that a tensor says which parameter it is.
class HeldWeights final : public WeightSource {
 public:
  /// The numbers, as tensors of `backend` in f64.
  HeldWeights(const Backend& backend, const ModelSpec& model, const std::map<ParameterId, Numbers>& numbers);

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override { return sublayers_.at(sublayer); }

 private:
  std::map<int, SublayerWeights> sublayers_;
};

}  // namespace periscope::soundness
