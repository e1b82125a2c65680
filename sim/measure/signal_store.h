#pragma once

#include <map>
#include <utility>

#include "sim/model/hooks.h"

namespace periscope {

/// Stores the signals of one forward pass, or their gradients in one backward pass, by sublayer.
class SignalStore final : public SignalRecorder {
 public:
  explicit SignalStore(Pass pass) : pass_(pass) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.pass == pass_) signals_[{at.sublayer, at.signal}] = x;
  }
  /// Throws std::out_of_range if the pass did not produce the signal.
  [[nodiscard]] const Tensor& at(int sublayer, Signal signal) const { return signals_.at({sublayer, signal}); }
  [[nodiscard]] const std::map<std::pair<int, Signal>, Tensor>& all() const { return signals_; }

 private:
  Pass pass_;
  std::map<std::pair<int, Signal>, Tensor> signals_;
};

}  // namespace periscope
