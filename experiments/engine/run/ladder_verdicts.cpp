#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/run/ladder.h"

namespace periscope::stacks {
namespace {

bool is_finite(const LadderQuantity& q) {
  const auto finite = [](const judge::Estimate& e) { return std::isfinite(e.value) && std::isfinite(e.error); };
  return std::ranges::all_of(q.measured, finite) && finite(q.test.predicted);
}

}  // namespace

void judge_ladder(LadderResult& result, int seeds, const config::AgreementOptions& options) {
  std::vector<judge::Test*> tests;
  for (LadderStack& stack : result.stacks) {
    for (LadderQuantity& q : stack.quantities) {
      judge::Test& t = q.test;
      t.reason = !stack.refusal.empty() ? stack.refusal : is_finite(q) ? "" : "not finite";
      t.measured = {std::nan(""), std::nan("")};
      if (!t.reason.empty()) continue;
      q.fit = judge::fit_width(result.widths, q.measured, seeds, t.tolerated_bias / 10.0);
      t.measured = q.fit.limit;
      t.measured_degrees = q.fit.degrees;
      t.seeds = seeds;
      t.limit = judge::limit_of(options.power_limits, t.statistic);
      tests.push_back(&t);
    }
  }
  result.tests = tests.size();
  const double level = judge::judge(tests, {.familywise_error = options.familywise_error, .seeds_key = "ladder.seeds"});
  for (LadderStack& stack : result.stacks) {
    for (LadderQuantity& q : stack.quantities) {
      if (q.fit.lack_of_fit < level) {  // such points say nothing of their limit, not even that it is wrong
        q.test.verdict = judge::Verdict::inconclusive;
        q.test.reason =
            fmt::format("no parabola in 1/D passes through the points (p = {:.1g}); wider ladder.widths would help",
                        q.fit.lack_of_fit);
      }
      stack.verdict = std::max(stack.verdict, q.test.verdict);
    }
  }
}

bool any_disagrees(const LadderResult& result) {
  return std::ranges::find(result.stacks, judge::Verdict::disagrees, &LadderStack::verdict) != result.stacks.end();
}

}  // namespace periscope::stacks
