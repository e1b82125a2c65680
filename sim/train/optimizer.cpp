#include "sim/train/optimizer.h"

#include <utility>

namespace periscope {

Optimizer::Optimizer(const Backend& ops, const TrainSpec& train, const ResidentWeights::Parameters& parameters)
    : ops_(ops), train_(train) {
  for (const auto& [id, x] : parameters) {
    if (is_frozen(train, id.weight)) continue;
    const auto zeros = [&, &x = x] { return ops.constant(x.rows(), x.cols(), x.dtype(), 0.0); };
    state_[id] = {.mean = zeros(), .square = train.optimizer == OptimizerKind::adamw ? zeros() : Tensor()};
  }
}

Tensor Optimizer::updated(const ParameterId& id, Tensor parameter, const Tensor& gradient, double scale, int step) {
  const double rate = learning_rate(train_, step);
  const double decay = id.part == ParameterId::Part::matrix ? rate * train_.weight_decay : 0.0;
  GradientMoments& moments = state_.at(id);
  if (train_.optimizer == OptimizerKind::sgd) {
    moments.mean = ops_.axpby(train_.momentum, std::exchange(moments.mean, {}), scale, gradient);
    return ops_.axpby(1.0 - decay, std::move(parameter), -rate, moments.mean);
  }
  AdamState state = ops_.adamw({.parameter = std::move(parameter),
                                .mean = std::exchange(moments.mean, {}),
                                .square = std::exchange(moments.square, {})},
                               gradient,
                               {.rate = rate,
                                .decay = decay,
                                .beta1 = train_.beta1,
                                .beta2 = train_.beta2,
                                .eps = train_.eps,
                                .gradient_scale = scale,
                                .step = step});
  moments = {.mean = std::move(state.mean), .square = std::move(state.square)};
  return std::move(state.parameter);
}

}  // namespace periscope
