#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/studies/formats/formats.h"
#include "sim/numerics/allowances.h"

namespace periscope::formats {
namespace {

/// The relative drifts of one stack in one format, at every depth.
std::vector<judge::Test> drift_tests(const FormatsStack& stack, const FormatResult& format,
                                     const config::AgreementOptions& options) {
  const Variant& plain = format.variants.front();
  const std::size_t first = stack.position({Pass::forward, Signal::x_out}) * places_of(stack.spec.model);
  std::vector<judge::Test> tests;
  for (const auto& [statistic, drifts] : {std::pair(Statistic::second_moment, &plain.second_moment_drift),
                                          std::pair(Statistic::variance, &plain.variance_drift)}) {
    for (int depth = 0; depth <= stack.spec.model.sublayers(); ++depth) {
      const RunningMoments& drift = (*drifts)[first + static_cast<std::size_t>(depth)];
      // Less than f64's own rounding is no spread: a norm may fix the statistic.
      tests.push_back({.statistic = statistic,
                       .index = depth,
                       .measured = {drift.mean(), std::max(drift.standard_error(), fp64.spacing_at_1())},
                       .tolerated_bias = format.stream_rounding + pass_allowance(fp32),
                       .limit = judge::limit_of(options.power_limits, statistic),
                       .seeds = stack.seeds});
    }
  }
  return tests;
}

void judge_drifts(FormatsResult& result, const config::AgreementOptions& options) {
  std::vector<judge::StackVerdict*> drifts;
  for (FormatsStack& stack : result.stacks) {
    for (FormatResult& format : stack.formats) {
      if (format.is_f64()) continue;
      const int overflowed = format.variants.front().forward.seeds;
      if (overflowed > 0) format.drift.reason = fmt::format("{} of {} seeds diverged", overflowed, stack.seeds);
      if (stack.seeds < judge::fewest_seeds) {
        format.drift.reason = fmt::format("a verdict needs {} seeds, found {}", judge::fewest_seeds, stack.seeds);
      }
      if (!format.drift.reason.empty()) continue;
      format.drift.tests = drift_tests(stack, format, options);
      drifts.push_back(&format.drift);
    }
  }
  judge::judge(drifts, options.familywise_error);
}

}  // namespace

void judge_laws(FormatsResult& result, const config::AgreementOptions& options) {
  std::vector<Profile> profiles;
  for (const FormatsStack& stack : result.stacks) {
    for (const FormatResult& format : stack.formats) profiles.push_back(stack.law_profile(format));
  }
  std::vector<judge::Comparison> comparisons;
  for (const FormatsStack& stack : result.stacks) {
    for (const FormatResult& format : stack.formats) {
      comparisons.push_back({.spec = stack.spec,
                             .measured = profiles[comparisons.size()],
                             .seeds = stack.seeds,
                             .diverged_seeds = format.variants.front().forward.seeds,
                             .dtype = format.is_f64() ? DType::f64 : DType::f32,
                             .prediction = stack.prediction,
                             .rounding = format.stream_rounding,
                             .per_seed = &format.law_curves});
    }
  }
  std::vector<judge::StackVerdict> laws = judge::verdicts_of(comparisons, options);
  std::size_t next = 0;
  for (FormatsStack& stack : result.stacks) {
    for (FormatResult& format : stack.formats) format.law = std::move(laws[next++]);
  }
  judge_drifts(result, options);
}

std::size_t massive_tests(const FormatsResult& result) {
  std::size_t tests = 0;
  for (const FormatsStack& stack : result.stacks) tests += stack.formats.size() - 1;
  return tests;
}

std::string massive_words(const RunningMoments& effect, std::size_t tests, double familywise_error) {
  if (effect.count() < 2) return "";
  if (!std::isfinite(effect.mean() / effect.standard_error())) return "not finite";
  const double level = judge::sidak_level(familywise_error, tests);
  const double limit = judge::critical_excess(static_cast<double>(effect.count()) - 1.0, level);
  if (std::abs(effect.mean()) <= limit * effect.standard_error()) return "no difference seen";
  return effect.mean() > 0.0 ? "hurts" : "helps";
}

bool check_failed(const FormatsResult& result) {
  return std::ranges::any_of(result.stacks, [](const FormatsStack& stack) {
    return judge::disagrees(stack.formats.front().law) ||
           std::ranges::any_of(stack.formats, [](const FormatResult& format) {
             const bool overflowed = format.variants.front().forward.of_first_seed;
             return format.certificate && format.certificate->certified && overflowed;
           });
  });
}

}  // namespace periscope::formats
