#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "experiments/studies/formats/formats.h"
#include "sim/measure/seed_average.h"
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

}  // namespace

void judge_formats(std::vector<FormatsStack>& stacks, const config::AgreementOptions& options) {
  std::deque<Profile> profiles;  // referred to by `comparisons`
  std::vector<judge::Comparison> comparisons;
  for (const FormatsStack& stack : stacks) {
    for (const FormatResult& format : stack.formats) {
      SeedAverage law;
      for (const Profile& seed : format.law_profiles) law.add({.profile = seed, .top = {}});
      comparisons.push_back({.spec = stack.spec,
                             .measured = profiles.emplace_back(law.profile()),
                             .seeds = stack.seeds,
                             .diverged_seeds = format.variants.front().forward.seeds,
                             .dtype = format.is_f64() ? DType::f64 : DType::f32,
                             .prediction = stack.prediction,
                             .rounding = format.stream_rounding,
                             .per_seed = &format.law_profiles});
    }
  }
  std::vector<judge::StackVerdict> laws = judge::verdicts_of(comparisons, options);
  auto law = laws.begin();
  std::vector<judge::StackVerdict*> drifts;
  std::vector<judge::Test*> massive;
  for (FormatsStack& stack : stacks) {
    for (FormatResult& format : stack.formats) {
      format.law = std::move(*law++);
      if (format.is_f64()) continue;
      const bool judged = stack.seeds >= judge::fewest_seeds && format.variants.front().forward.seeds == 0;
      if (judged) format.drift.tests = drift_tests(stack, format, options);
      if (!judged) format.drift.reason = format.law.reason;
      drifts.push_back(&format.drift);
      if (format.branch_cost.count() == 0) continue;
      format.massive = {.measured = {format.branch_cost.mean(), format.branch_cost.standard_error()},
                        .seeds = stack.seeds};
      massive.push_back(&format.massive);
    }
  }
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

bool check_failed(const std::vector<FormatsStack>& stacks) {
  return std::ranges::any_of(stacks, [](const FormatsStack& stack) {
    return judge::disagrees(stack.formats.front().law) ||
           std::ranges::any_of(stack.formats, [](const FormatResult& format) {
             const bool overflowed = format.variants.front().forward.of_first_seed;
             return format.certificate && format.certificate->certified && overflowed;
           });
  });
}

}  // namespace periscope::formats
