#pragma once

#include <map>

#include "sim/core/backend.h"
#include "sim/model/resident_weights.h"
#include "sim/spec/weight.h"
#include "sim/train/train_spec.h"

namespace periscope {

/// Moments of a parameter's gradients that an optimizer keeps, each like the parameter: AdamW's running means of the
/// gradient and of its square, or the momentum of SGD, whose `square` is empty.
struct GradientMoments {
  Tensor mean;
  Tensor square;
};

/// AdamW (Backend::adamw), or SGD with momentum: m ← momentum·m + g, p ← (1 − rate·decay)·p − rate·m, which begins with
/// m = 0. The decay is that of matrices and tables; gains and biases have none.
class Optimizer {
 public:
  using State = std::map<ParameterId, GradientMoments>;

  /// Makes the state for these parameters. The backend outlives this.
  Optimizer(const Backend& ops, const TrainSpec& train, const ResidentWeights::Parameters& parameters);

  /// The parameter after step 1, 2, …, whose gradient is `scale` · `gradient`. Several threads may each update others.
  [[nodiscard]] Tensor updated(const ParameterId& id, Tensor parameter, const Tensor& gradient, double scale, int step);

  [[nodiscard]] const State& state() const { return state_; }
  /// Goes on from what was moments.
  void set_state(State state) { state_ = std::move(state); }

 private:
  const Backend& ops_;
  TrainSpec train_;
  State state_;
};

}  // namespace periscope
