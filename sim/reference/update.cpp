#include <cmath>

#include "sim/reference/ops.h"

namespace periscope {

void ReferenceBackend::do_adamw(AdamState& state, const Tensor& gradient, const AdamRule& rule) const {
  double* parameter = elements<double>(state.parameter);
  double* mean = elements<double>(state.mean);
  double* square = elements<double>(state.square);
  const double* from = elements<double>(gradient);
  const double steps = static_cast<double>(rule.step);
  const double mean_weight = 1.0 - std::pow(rule.beta1, steps);
  const double square_weight = 1.0 - std::pow(rule.beta2, steps);
  for (Index i = 0; i < gradient.size(); ++i) {
    const double g = rule.gradient_scale * from[i];
    mean[i] = rule.beta1 * mean[i] + (1.0 - rule.beta1) * g;
    square[i] = rule.beta2 * square[i] + (1.0 - rule.beta2) * g * g;
    parameter[i] = (1.0 - rule.decay) * parameter[i] -
                   rule.rate * (mean[i] / mean_weight) / (std::sqrt(square[i] / square_weight) + rule.eps);
  }
}

}  // namespace periscope
