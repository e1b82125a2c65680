#include "experiments/engine/judge/stack_verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "experiments/engine/judge/contrasts.h"

namespace periscope::judge {
namespace {

/// Why a comparison cannot be judged, or "".
std::string obstacle(const Comparison& c) {
  if (!c.prediction.refusal.empty()) return c.prediction.refusal;
  if (c.diverged_seeds > 0) return fmt::format("{} of {} seeds diverged", c.diverged_seeds, c.seeds);
  if (c.seeds < fewest_seeds) return fmt::format("a verdict needs {} seeds, found {}", fewest_seeds, c.seeds);
  return {};
}

StackVerdict tests_of(const Comparison& c, const config::AgreementOptions& options) {
  StackVerdict stack{.reason = obstacle(c), .width = c.spec.model.width};
  if (!stack.reason.empty()) return stack;
  stack.verdict = Verdict::inconclusive;
  stack.reason = out_of_range(c.spec, c.prediction.profile, c.dtype);
  if (!stack.reason.empty()) return stack;
  stack.tests = stack_tests(c, options);
  std::ranges::move(contrasts(c, stack.tests, options.power_limits), std::back_inserter(stack.tests));
  if (stack.tests.empty()) stack.reason = "nothing to compare";
  return stack;
}

}  // namespace

std::vector<StackVerdict> verdicts_of(const std::vector<Comparison>& comparisons,
                                      const config::AgreementOptions& options) {
  std::vector<StackVerdict> stacks;
  for (const Comparison& c : comparisons) stacks.push_back(tests_of(c, options));
  std::vector<StackVerdict*> all;
  for (StackVerdict& stack : stacks) all.push_back(&stack);
  judge(all, options.familywise_error);
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const std::string& refusal = comparisons[i].prediction.gradient_refusal;
    const bool measured = comparisons[i].measured.find(Statistic::grad_sq, Signal::x_out) != nullptr;
    if (stacks[i].verdict == Verdict::inconclusive && measured && !refusal.empty())
      stacks[i].reason = "gradients are not predicted: " + refusal;
  }
  return stacks;
}

}  // namespace periscope::judge
