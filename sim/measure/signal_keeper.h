#pragma once

#include <map>
#include <utility>

#include "sim/model/hooks.h"

namespace periscope {

/// Keeps signals of one pass, by sublayer, as they are: those of the forward pass, or their gradients.
class SignalKeeper final : public SignalRecorder {
 public:
  explicit SignalKeeper(Pass pass) : pass_(pass) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.pass == pass_) signals_[{at.sublayer, at.signal}] = x;
  }
  /// Throws std::out_of_range for a signal that did not arise.
  [[nodiscard]] const Tensor& at(int sublayer, Signal signal) const { return signals_.at({sublayer, signal}); }
  [[nodiscard]] const std::map<std::pair<int, Signal>, Tensor>& all() const { return signals_; }

 private:
  Pass pass_;
  std::map<std::pair<int, Signal>, Tensor> signals_;
};

}  // namespace periscope
