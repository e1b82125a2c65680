#include "experiments/studies/widths/convergence.h"

#include <algorithm>
#include <cmath>

#include "sim/measure/running_moments.h"

namespace periscope::ladder {
namespace {

/// The spread of means of n seeds for n = 1, 2, 4, …
void fill_noise(Convergence& c, const std::vector<double>& per_seed) {
  for (std::size_t n = 1; per_seed.size() / n >= fewest_groups; n *= 2) {
    RunningMoments means;
    for (std::size_t group = 0; group < per_seed.size() / n; ++group) {
      RunningMoments mean;
      for (std::size_t i = 0; i < n; ++i) mean.add(per_seed[group * n + i]);
      means.add(mean.mean());
    }
    c.seeds.push_back(static_cast<double>(n));
    c.noise.push_back(std::sqrt(means.variance()));
    c.noise_error.push_back(spread_error(c.noise.back(), static_cast<int>(means.count())));
  }
}

Convergence convergence_of(const stacks::LadderStack& stack, const stacks::LadderQuantity& q,
                           const std::vector<int>& widths) {
  Convergence c;
  c.spec = stack.spec;
  c.statistic = q.test.statistic;
  c.bias_reason = stack.refusal;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    c.width.push_back(widths[i]);
    c.bias.push_back(q.measured[i].value - q.test.predicted.value);
    c.bias_error.push_back(std::hypot(q.measured[i].error, q.test.predicted.error));
    c.prediction_error.push_back(q.test.predicted.error);
  }
  fill_noise(c, q.per_seed);
  return c;
}

}  // namespace

double spread_error(double spread, int groups) { return spread / std::sqrt(2.0 * (groups - 1)); }

ConvergenceResult convergence_of(const stacks::LadderResult& ladder, double familywise_error) {
  ConvergenceResult result;
  std::size_t seeds = 0;
  for (const stacks::LadderStack& stack : ladder.stacks) {
    for (const stacks::LadderQuantity& q : stack.stream_means) {
      result.fits.push_back(convergence_of(stack, q, ladder.widths));
      seeds = std::max(seeds, q.per_seed.size());
    }
  }
  judge_exponents(result, static_cast<int>(seeds), familywise_error);
  return result;
}

}  // namespace periscope::ladder
