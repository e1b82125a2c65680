#pragma once

#include "experiments/engine/run/progress.h"
#include "sim/model/hooks.h"

namespace periscope::stacks {

/// Reports the completed fraction of a pass, and throws Stopped if a stop is requested.
class PassProgress final : public SignalRecorder {
 public:
  /// `shown`: whether to report the fraction. Set it only if no other pass runs at the same time.
  PassProgress(Progress& progress, int sublayers, bool backward, bool shown)
      : progress_(progress), sublayers_(sublayers), backward_(backward), shown_(shown) {}

  void on_signal(const Emission& at, const Tensor& /*x*/) override {
    const bool forward = at.pass == Pass::forward && at.signal == Signal::x_out;
    if (!forward && !(at.pass == Pass::backward && at.signal == Signal::x_in)) return;
    progress_.throw_if_stop_requested();
    if (!shown_ || at.sublayer < 0) return;
    // The backward pass computes up to three products per matrix, the forward pass one.
    const double forward_done = (at.sublayer + 1.0) / sublayers_;
    const double backward_done = (sublayers_ - at.sublayer) / static_cast<double>(sublayers_);
    const double share = !backward_ ? forward_done : forward ? 0.25 * forward_done : 0.25 + 0.75 * backward_done;
    if (share < 1.0) progress_.part(share);
  }

 private:
  Progress& progress_;
  int sublayers_;
  bool backward_, shown_;
};

}  // namespace periscope::stacks
