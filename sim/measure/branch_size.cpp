#include "sim/measure/branch_size.h"

#include <limits>

namespace periscope {

std::vector<double> branch_size_from_gains(const StackContext& c) {
  const auto mean_square = [&](const Tensor& x) {
    return x.empty() ? 0.0 : c.ops.row_moments(x).second_moment.front();
  };
  std::vector<double> sizes;
  for (int l = 0; l < c.model.sublayers(); ++l) {
    const SublayerRule rule = c.model.rule(l);
    if (!rule.norm_b) {
      sizes.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const NormWeights w = c.weights.fetch(l).norm(Weight::norm_b);
    sizes.push_back(rule.beta * rule.beta * (mean_square(w.gain) + mean_square(w.bias)));
  }
  return sizes;
}

}  // namespace periscope
