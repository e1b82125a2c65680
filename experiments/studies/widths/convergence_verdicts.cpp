#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/remedy.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/studies/widths/convergence.h"

namespace periscope::ladder {
namespace {

/// Below this many standard errors a bias counts as not seen, and no exponent is judged.
constexpr double clearly_seen = 5.0;

/// Exponents so far from theory's must be rejected for an agreement to count: of a bias the next orders in 1/width, a
/// limit that is wrong (0) and no term of first order (−2); of noise the same number for all seeds (0), and −1.
constexpr double next_bias = 1.0;
constexpr double next_noise = 0.5;

/// True if `n` seeds of a width, instead of `seeds`, would tell the bias's exponent from the next ones, with
/// predictions of `sharper` times their error.
bool bias_decides(const Convergence& c, int seeds, int n, double sharper, double limit) {
  std::vector<double> error;
  for (std::size_t i = 0; i < c.width.size(); ++i) {
    const double of_theory = c.prediction_error[i];
    const double of_seeds = std::sqrt(std::max(0.0, c.bias_error[i] * c.bias_error[i] - of_theory * of_theory));
    error.push_back(std::hypot(of_seeds * std::sqrt(static_cast<double>(seeds) / n), sharper * of_theory));
  }
  return judge::is_told_apart(c.width, c.bias, error, -1.0, next_bias, limit);
}

/// True if `n` seeds would tell the exponent of the noise from the next ones: its error at means of g seeds follows
/// from the number of groups alone.
bool noise_decides(int n, double limit) {
  std::vector<double> group, spread, error;
  for (int g = 1; n / g >= fewest_groups; g *= 2) {
    group.push_back(g);
    spread.push_back(1.0 / std::sqrt(g));
    error.push_back(spread_error(spread.back(), n / g));
  }
  return judge::is_told_apart(group, spread, error, -0.5, next_noise, limit);
}

/// Says what would make the inconclusive verdicts of `c` decide, with 95 % probability if the exponents are
/// T20's; at least twice the seeds where the ones that are there should have been enough, and were not.
std::string remedy_of(const Convergence& c, int seeds, double critical) {
  const double limit = critical + judge::critical_excess(seeds - 1.0, 2.0 * (1.0 - judge::wanted_power));
  const bool bias = c.bias_verdict == judge::Verdict::inconclusive;
  const bool noise = c.noise_verdict == judge::Verdict::inconclusive;
  if (seeds == 0 || (!bias && !noise)) return {};
  constexpr double sharpest = 1.0 / 64.0;
  for (double sharper = 1.0; sharper >= sharpest; sharper /= 2.0) {
    const int n = judge::seeds_that_decide(2 * seeds, [&](int more) {
      return (!bias || bias_decides(c, seeds, more, sharper, limit)) && (!noise || noise_decides(more, limit));
    });
    if (n == 0) continue;
    const std::string words = fmt::format("about {} seeds per width would decide", judge::rounded_up(n));
    return sharper == 1.0
               ? words
               : fmt::format("{}, with predictions {:g} times as precise (theory.tolerance)", words, 1.0 / sharper);
  }
  return std::string(judge::nothing_within_reach);
}

/// Fits both laws of `c`, and says why one is not judged.
void fit(Convergence& c) {
  if (!c.bias_reason.empty()) return;
  const auto finite = [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
  };
  // A spread at the level of rounding is no noise: the statistic is fixed by the placement.
  const bool constant = c.noise.empty() || c.noise[0] <= 1e-6;
  if (!finite(c.noise) || !finite(c.bias) || constant) {
    c.bias_reason = finite(c.noise) && finite(c.bias) ? "fixed by the placement: no noise to fit" : "not finite";
    return;
  }
  c.noise_is_judged = true;
  c.noise_fit = judge::fit_power_law(c.seeds, c.noise, c.noise_error);
  c.bias_fit = judge::fit_power_law(c.width, c.bias, c.bias_error);
  if (c.bias_fit.significance < clearly_seen) {
    c.bias_reason = fmt::format("no bias seen: {:.1f} standard errors", c.bias_fit.significance);
  }
}

}  // namespace

void judge_exponents(ConvergenceResult& result, int seeds, double familywise_error) {
  std::size_t tests = 0;
  for (Convergence& c : result.fits) {
    fit(c);
    tests += (c.noise_is_judged ? 1U : 0U) + (c.bias_reason.empty() ? 1U : 0U);
  }
  result.critical = judge::critical_excess(seeds - 1.0, judge::sidak_level(familywise_error, tests));
  for (Convergence& c : result.fits) {
    if (c.noise_is_judged) {
      c.noise_verdict =
          judge::verdict_on_exponent(c.seeds, c.noise, c.noise_error, c.noise_fit, -0.5, next_noise, result.critical);
    }
    if (c.bias_reason.empty()) {
      c.bias_verdict =
          judge::verdict_on_exponent(c.width, c.bias, c.bias_error, c.bias_fit, -1.0, next_bias, result.critical);
    }
    c.remedy = remedy_of(c, seeds, result.critical);
  }
}

bool any_disagrees(const ConvergenceResult& result) {
  return std::ranges::any_of(result.fits, [](const Convergence& c) {
    return c.bias_verdict == judge::Verdict::disagrees || c.noise_verdict == judge::Verdict::disagrees;
  });
}

}  // namespace periscope::ladder
