#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/remedy.h"
#include "experiments/engine/judge/verdict_power.h"
#include "experiments/engine/run/ladder.h"
#include "sim/spec/weight.h"

namespace periscope::stacks {
namespace {

void judge_quantity(LadderQuantity& q, double level, int seeds, const config::AgreementOptions& options) {
  const double error = q.error();
  if (!std::isfinite(q.fit.limit.value) || !std::isfinite(q.predicted.value) || !std::isfinite(error)) {
    q.verdict = judge::Verdict::inconclusive;
    q.reason = "its limit is no number";
    return;
  }
  if (error == 0.0 && q.fit.limit.value == q.predicted.value) {
    q.verdict = judge::Verdict::agrees;
    return;
  }
  const double degrees = error > 0.0 ? q.degrees() : q.fit.degrees;
  const double beyond = std::abs(q.fit.limit.value - q.predicted.value) - q.allowance;
  q.excess = beyond <= 0.0 ? 0.0 : beyond / error;
  q.critical = judge::critical_excess(degrees, level);
  q.power = (2.0 * q.allowance + (q.critical + judge::critical_excess(degrees, 0.1)) * error) / q.scale;
  const double limit = judge::limit_of(options.power_limits, q.statistic);
  if (q.fit.lack_of_fit < level) {  // such points say nothing of their limit, not even that it is wrong
    q.verdict = judge::Verdict::inconclusive;
    q.reason = fmt::format("no parabola in 1/D passes through the points (p = {:.1g}); wider ladder.widths would help",
                           q.fit.lack_of_fit);
  } else if (q.excess > q.critical) {
    q.verdict = judge::Verdict::disagrees;
  } else if (q.power > limit) {
    q.verdict = judge::Verdict::inconclusive;
    q.reason = fmt::format("could be off by {}; limit {:g}", judge::error_words(q.power), limit);
    const judge::Cell cell{.statistic = q.statistic,
                           .measured = q.fit.limit.value,
                           .measured_error = q.fit.limit.error,
                           .predicted = q.predicted.value,
                           .predicted_error = q.predicted.error,
                           .allowance = q.allowance,
                           .scale = q.scale,
                           .seeds = seeds,
                           .replicates = q.replicates};
    const std::string way_out = judge::remedy({{cell, limit}}, level, seeds, 0);
    if (!way_out.empty()) q.reason += fmt::format("; {} (ladder.seeds)", way_out);
  } else {
    q.verdict = judge::Verdict::agrees;
  }
}

}  // namespace

std::string LadderQuantity::family() const {
  return fmt::format("{} {}", statistic_names[static_cast<std::size_t>(statistic)],
                     weight ? weight_names[static_cast<std::size_t>(*weight)] : name_of(signal));
}

std::string LadderQuantity::name() const {
  return mean_over.empty() ? fmt::format("{}[{}]", family(), index)
                           : fmt::format("{} mean over {}", family(), mean_over);
}

double LadderQuantity::error() const { return std::hypot(fit.limit.error, predicted.error); }

double LadderQuantity::degrees() const {
  const double a = std::pow(fit.limit.error / error(), 4);  // shares of the variance, squared: they cannot overflow
  const double b = std::pow(predicted.error / error(), 4);
  return 1.0 / (a / fit.degrees + b / (replicates - 1));
}

void judge_ladder(LadderResult& result, int seeds, const config::AgreementOptions& options) {
  std::vector<LadderQuantity*> judged;
  for (LadderStack& stack : result.stacks) {
    for (LadderQuantity& q : stack.quantities) {
      if (!stack.refusal.empty()) {
        q.reason = stack.refusal;
        continue;
      }
      const bool numbers = std::ranges::all_of(
          q.measured, [](const judge::Estimate& m) { return std::isfinite(m.value) && std::isfinite(m.error); });
      if (!numbers || !std::isfinite(q.predicted.value) || !std::isfinite(q.predicted.error)) {
        q.reason = "not finite";
        continue;
      }
      q.fit = judge::fit_width(result.widths, q.measured, seeds, q.allowance / 10.0);
      judged.push_back(&q);
    }
  }
  result.tests = judged.size();
  const double level = judge::sidak_level(options.familywise_error, judged.size());
  for (LadderQuantity* q : judged) judge_quantity(*q, level, seeds, options);
  for (LadderStack& stack : result.stacks) {
    // A rejection outranks what is inconclusive, and that outranks agreement.
    for (const judge::Verdict verdict :
         {judge::Verdict::agrees, judge::Verdict::inconclusive, judge::Verdict::disagrees}) {
      if (std::ranges::find(stack.quantities, verdict, &LadderQuantity::verdict) != stack.quantities.end()) {
        stack.verdict = verdict;
      }
    }
  }
}

bool any_disagrees(const LadderResult& result) {
  return std::ranges::find(result.stacks, judge::Verdict::disagrees, &LadderStack::verdict) != result.stacks.end();
}

}  // namespace periscope::stacks
