#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/judge.h"
#include "experiments/studies/widths/ladder.h"
#include "sim/measure/running_moments.h"

namespace periscope::ladder {
namespace {

/// A bias smaller than this number of standard errors counts as undetected, and its exponent is not judged.
constexpr double least_significance = 5.0;
/// Minimum number of groups of n seeds from which the spread of their means is measured.
constexpr std::size_t fewest_groups = 8;

/// Returns the spread of means over n seeds for n = 1, 2, 4, …, with the standard error spread/√(2(groups − 1)).
FittedLaw noise_of(const std::vector<double>& per_seed) {
  FittedLaw noise;
  for (std::size_t n = 1; per_seed.size() / n >= fewest_groups; n *= 2) {
    const std::size_t groups = per_seed.size() / n;
    RunningMoments means;
    for (std::size_t group = 0; group < groups; ++group) {
      RunningMoments mean;
      for (std::size_t i = 0; i < n; ++i) mean.add(per_seed[group * n + i]);
      means.add(mean.mean());
    }
    const double spread = std::sqrt(means.variance());
    noise.over.push_back(static_cast<double>(n));
    noise.value.push_back(spread);
    noise.error.push_back(spread / std::sqrt(2.0 * (static_cast<double>(groups) - 1.0)));
  }
  return noise;
}

Convergence measured(const stacks::LadderStack& stack, const stacks::LadderQuantity& q,
                     const std::vector<int>& widths) {
  Convergence c{.spec = stack.spec, .statistic = q.test.statistic, .bias = {}, .noise = noise_of(q.per_seed)};
  c.bias.test.reason = stack.unsupported;
  RunningMoments share;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const double error = std::hypot(q.measured[i].error, q.test.predicted.error);
    c.bias.over.push_back(widths[i]);
    c.bias.value.push_back(q.measured[i].value - q.test.predicted.value);
    c.bias.error.push_back(error);
    share.add(error > 0.0 ? std::pow(q.test.predicted.error / error, 2) : 0.0);
  }
  c.from_theory = share.mean();
  return c;
}

/// Fits a law and tests its exponent against `exponent`. The test must detect exponents that differ by `next`.
void fit(FittedLaw& law, double exponent, double next, double from_theory, int seeds) {
  law.fit = judge::fit_power_law(law.over, law.value, law.error);
  const double error = law.fit.exponent_error;
  law.test = {.quantity = "exponent",
              .measured = {law.fit.exponent, error * std::sqrt(1.0 - from_theory)},
              .predicted = {exponent, error * std::sqrt(from_theory)},
              .limit = next,
              .seeds = seeds};
}

/// Fits both laws of `c`, or sets the reason why they are not judged.
void fit(Convergence& c, int seeds) {
  if (!c.bias.test.reason.empty()) return;
  const auto finite = [](const FittedLaw& law) {
    return std::ranges::all_of(law.value, [](double v) { return std::isfinite(v); });
  };
  // If the spread is at the level of rounding, the placement fixes the statistic.
  const bool constant = c.noise.value.empty() || c.noise.value[0] <= 1e-6;
  if (!finite(c.noise) || !finite(c.bias)) {
    c.bias.test.reason = "not finite";
  } else if (constant) {
    c.bias.test.reason = "fixed by the placement: no noise to fit";
  } else {
    fit(c.noise, -0.5, 0.5, 0.0, seeds);
    fit(c.bias, -1.0, 1.0, c.from_theory, seeds);
    const double seen = c.bias.fit.significance;
    if (seen < least_significance) c.bias.test = {.reason = fmt::format("no bias seen: {:.1f} standard errors", seen)};
  }
}

}  // namespace

std::vector<Convergence> convergence_of(const stacks::LadderResult& ladder, double familywise_error) {
  std::vector<Convergence> fits;
  std::size_t seeds = 0;
  for (const stacks::LadderStack& stack : ladder.stacks) {
    for (const stacks::LadderQuantity& q : stack.stream_means) {
      fits.push_back(measured(stack, q, ladder.widths));
      seeds = std::max(seeds, q.per_seed.size());
    }
  }
  judge_exponents(fits, static_cast<int>(seeds), familywise_error);
  return fits;
}

void judge_exponents(std::vector<Convergence>& fits, int seeds, double familywise_error) {
  std::vector<judge::Test*> tests;
  for (Convergence& c : fits) {
    fit(c, seeds);
    tests.insert(tests.end(), {&c.bias.test, &c.noise.test});
  }
  judge::judge(tests, {.familywise_error = familywise_error, .seeds_key = "ladder.seeds"});
}

bool any_disagrees(const std::vector<Convergence>& fits) {
  return std::ranges::any_of(
      fits, [](const Convergence& c) { return judge::disagrees(c.bias.test) || judge::disagrees(c.noise.test); });
}

}  // namespace periscope::ladder
