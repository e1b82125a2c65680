#include <fmt/format.h>

#include <algorithm>

#include "experiments/studies/formats/formats.h"
#include "sim/numerics/allowances.h"

namespace periscope::formats {
namespace {

/// The relative drifts of one stack in one format, at every depth.
std::vector<judge::Test> drift_tests(const FormatsStack& stack, const FormatResult& format,
                                     const config::AgreementOptions& options) {
  std::vector<judge::Test> tests;
  for (const auto& [statistic, measure] : {std::pair(Statistic::second_moment, Measure::second_moment_drift),
                                           std::pair(Statistic::variance, Measure::variance_drift)}) {
    for (int depth = 0; depth <= stack.spec.model.sublayers(); ++depth) {
      const RunningMoments& drift =
          format.variants.front().numbers.at({stream_site, measure})[static_cast<std::size_t>(depth)];
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

judge::StackVerdict drift_of(const FormatsStack& stack, const FormatResult& format,
                             const config::AgreementOptions& options) {
  const int overflowed = format.variants.front().forward.seeds;
  if (stack.seeds < judge::fewest_seeds) {
    return {.reason = fmt::format("a verdict needs {} seeds, found {}", judge::fewest_seeds, stack.seeds)};
  }
  if (overflowed > 0) return {.reason = fmt::format("{} of {} seeds diverged", overflowed, stack.seeds)};
  return {.tests = drift_tests(stack, format, options)};
}

}  // namespace

void judge_formats(FormatsResult& result, const config::AgreementOptions& options) {
  std::vector<Profile> profiles;
  for (const FormatsStack& stack : result.stacks) {
    for (const FormatResult& format : stack.formats) profiles.push_back(format.law_average.profile());
  }
  std::vector<judge::Comparison> comparisons;
  std::vector<FormatResult*> formats;
  std::vector<judge::StackVerdict*> drifts;
  std::vector<judge::Test*> massive;
  for (FormatsStack& stack : result.stacks) {
    for (FormatResult& format : stack.formats) {
      comparisons.push_back({.spec = stack.spec,
                             .measured = profiles[comparisons.size()],
                             .seeds = stack.seeds,
                             .diverged_seeds = format.variants.front().forward.seeds,
                             .dtype = format.is_f64() ? DType::f64 : DType::f32,
                             .prediction = stack.prediction,
                             .rounding = format.stream_rounding,
                             .per_seed = &format.law_profiles});
      formats.push_back(&format);
      if (format.is_f64()) continue;
      format.drift = drift_of(stack, format, options);
      drifts.push_back(&format.drift);
      if (format.branch_cost.count() == 0) continue;
      format.massive = {.measured = {format.branch_cost.mean(), format.branch_cost.standard_error()},
                        .seeds = stack.seeds};
      massive.push_back(&format.massive);
    }
  }
  std::vector<judge::StackVerdict> laws = judge::verdicts_of(comparisons, options);
  for (std::size_t i = 0; i < laws.size(); ++i) formats[i]->law = std::move(laws[i]);
  judge::judge(drifts, options.familywise_error);
  judge::judge(massive, {.familywise_error = options.familywise_error});
}

std::string massive_words(const judge::Test& judged) {
  switch (judged.verdict) {
    case judge::Verdict::disagrees: return judged.measured.value > 0.0 ? "hurts" : "helps";
    case judge::Verdict::agrees: return "no difference seen";
    case judge::Verdict::inconclusive: return "not finite";
    case judge::Verdict::not_checked: break;
  }
  return "";
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
