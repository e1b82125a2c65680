#pragma once

#include <map>

#include "sim/core/backend.h"
#include "sim/model/resident_weights.h"
#include "sim/spec/weight.h"
#include "sim/train/train_spec.h"

namespace periscope {

/// Running moments of a parameter's gradient, each with the parameter's shape: AdamW's means of the gradient and of its
/// square, or SGD's momentum, for which `square` is empty.
struct GradientMoments {
  Tensor mean;
  Tensor square;
};

/// AdamW (Backend::adamw), or SGD with momentum: m ← momentum·m + g, p ← (1 − rate·decay)·p − rate·m, initially m = 0.
/// Decay applies to matrices and tables only, not to gains and biases.
class Optimizer {
 public:
  using State = std::map<ParameterId, GradientMoments>;

  /// Initialises the state for these parameters. The backend must outlive this object.
  Optimizer(const Backend& ops, const TrainSpec& train, const ResidentWeights::Parameters& parameters);

  /// Returns the parameter after `step` (from 1) with gradient `scale` · `gradient`. Thread-safe for different ids.
  [[nodiscard]] Tensor updated(const ParameterId& id, Tensor parameter, const Tensor& gradient, double scale, int step);

  [[nodiscard]] const State& state() const { return state_; }
  /// Restores a state returned by state().
  void set_state(State state) { state_ = std::move(state); }

 private:
  const Backend& ops_;
  TrainSpec train_;
  State state_;
};

}  // namespace periscope
