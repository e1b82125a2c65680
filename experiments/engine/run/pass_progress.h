#pragma once

#include "experiments/engine/run/progress.h"
#include "sim/model/hooks.h"

namespace periscope::stacks {

/// Reports the share of a pass that is done, and throws Stopped when the run is asked to stop.
class PassProgress final : public SignalRecorder {
 public:
  /// `shown`: whether this is the only pass now.
  PassProgress(Progress& progress, int sublayers, bool backward, bool shown)
      : progress_(progress), sublayers_(sublayers), backward_(backward), shown_(shown) {}

  void on_signal(const Emission& at, const Tensor& /*x*/) override {
    const bool forward = at.pass == Pass::forward && at.signal == Signal::x_out;
    if (!forward && !(at.pass == Pass::backward && at.signal == Signal::x_in)) return;
    progress_.throw_if_stop_requested();
    if (!shown_ || at.sublayer < 0) return;
    // The backward pass takes up to three products of every matrix, the forward pass one.
    const double ahead = (at.sublayer + 1.0) / sublayers_;
    const double back = (sublayers_ - at.sublayer) / static_cast<double>(sublayers_);
    const double share = !backward_ ? ahead : forward ? 0.25 * ahead : 0.25 + 0.75 * back;
    if (share < 1.0) progress_.part(share);
  }

 private:
  Progress& progress_;
  int sublayers_;
  bool backward_, shown_;
};

}  // namespace periscope::stacks
