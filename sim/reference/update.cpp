#include <cmath>

#include "sim/reference/ops.h"

namespace periscope {

void ReferenceBackend::run(const op::Adamw& o) const {
  double* parameter = elements<double>(o.state.parameter);
  double* mean = elements<double>(o.state.mean);
  double* square = elements<double>(o.state.square);
  const double* from = elements<double>(o.gradient);
  const double steps = static_cast<double>(o.rule.step);
  const double mean_weight = 1.0 - std::pow(o.rule.beta1, steps);
  const double square_weight = 1.0 - std::pow(o.rule.beta2, steps);
  for (Index i = 0; i < o.gradient.size(); ++i) {
    const double g = o.rule.gradient_scale * from[i];
    mean[i] = o.rule.beta1 * mean[i] + (1.0 - o.rule.beta1) * g;
    square[i] = o.rule.beta2 * square[i] + (1.0 - o.rule.beta2) * g * g;
    parameter[i] = (1.0 - o.rule.decay) * parameter[i] -
                   o.rule.rate * (mean[i] / mean_weight) / (std::sqrt(square[i] / square_weight) + o.rule.eps);
  }
}

}  // namespace periscope
