#include "experiments/engine/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "experiments/engine/judge/remedy.h"

namespace periscope::judge {
namespace {

/// Returns a tolerance that an imprecise gradient prediction meets (theory::is_precise), with a margin of 10 %.
std::string met_tolerance(const Test& test) {
  if (!is_gradient(test.statistic)) return "";
  const bool absolute = test.statistic == Statistic::log_grad_sq;
  const double met = 1.1 * test.predicted.error / (absolute ? 1.0 : std::abs(test.predicted.value));
  return fmt::format(" = {:.2g} would be met", met);
}

/// Returns why a test that does not reject is inconclusive, or "".
std::string inconclusive_reason(const Test& t) {
  if (std::isinf(t.tolerated_bias)) {
    return "no bound on the prediction's bias: gradients fluctuate too much over seeds, or the stack is too narrow or "
           "has no norms";
  }
  if (!t.is_finite()) {
    return fmt::format("measured {}, predicted {}", number_words(t.measured.value), number_words(t.predicted.value));
  }
  if (t.underpowered())
    return fmt::format("detectable error {} exceeds limit {:.3g}", error_words(t.detectable), t.limit);
  if (t.contrast.empty() && t.tolerated_bias > 0.0 && t.tolerated_bias >= t.scale) {
    return fmt::format("tolerated bias too large: {:.2g} times the predicted number", t.tolerated_bias / t.scale);
  }
  if (t.precise) return {};
  return fmt::format("prediction less precise than requested, ± {:.2g} (theory.gradient_tolerance{})",
                     t.predicted.error, met_tolerance(t));
}

/// Returns true for a test that can reject.
bool is_testable(const Test* t) { return t->seeds >= fewest_seeds && t->is_finite(); }

double judge_each(const std::vector<Test*>& tests, double familywise_error) {
  const double level =
      sidak_level(familywise_error, static_cast<std::size_t>(std::ranges::count_if(tests, is_testable)));
  for (Test* t : tests) {
    if (t->seeds < fewest_seeds || (std::isnan(t->measured.value) && std::isnan(t->predicted.value))) continue;
    if (is_testable(t)) {
      t->critical = critical_excess(t->degrees(), level);
      t->detectable = t->detectable_at(level);
    }
    const bool rejected = is_testable(t) && t->excess() > t->critical;
    t->reason = rejected ? std::string() : inconclusive_reason(*t);
    t->verdict = rejected ? Verdict::disagrees : t->reason.empty() ? Verdict::agrees : Verdict::inconclusive;
  }
  return level;
}

void add_remedy(std::string& reason, const std::vector<Test>& tests, double level, const Options& options) {
  const std::string words = remedy(tests, level, options.width);
  if (words.empty()) return;
  reason += "; " + words;
  if (!options.seeds_key.empty()) reason += fmt::format(" ({})", options.seeds_key);
}

/// Returns (excess / critical excess, |z|); |z|, which ignores the tolerated bias, orders tests without excess.
std::pair<double, double> nearness(const Test& t) {
  const auto number = [](double x) { return std::isnan(x) ? 0.0 : x; };
  return {t.critical > 0.0 ? number(t.excess() / t.critical) : 0.0, number(std::abs(t.z()))};
}

/// Returns the sort key of a test; deciding() returns the test with the largest one.
std::pair<int, double> rank(const Test& t) {
  switch (t.verdict) {
    case Verdict::disagrees: return {5, nearness(t).first};
    case Verdict::inconclusive:
      if (!t.is_finite()) return {4, 0.0};
      return t.underpowered() ? std::pair{3, t.detectable / t.limit} : std::pair{2, 0.0};
    case Verdict::agrees: return {1, nearness(t).first};
    case Verdict::not_checked: break;
  }
  return {0, 0.0};
}

/// Returns the tests with a detectable error and a limit on it.
std::vector<Test> with_limit(const std::vector<Test>& tests) {
  std::vector<Test> counted;
  std::ranges::copy_if(tests, std::back_inserter(counted),
                       [](const Test& t) { return t.is_finite() && !std::isinf(t.limit); });
  return counted;
}

/// Describes the underpowered tests other than the worst: their number, and whether all of them are of gradients.
std::string others_words(const std::vector<Test>& tests) {
  const std::vector<Test> counted = with_limit(tests);
  const auto over = std::ranges::count_if(counted, &Test::underpowered);
  const auto is_signal = [](const Test& t) { return !is_gradient(t.statistic); };
  std::string words;
  if (over > 1) words = fmt::format("; so do {} others of {} tests", over - 1, counted.size());
  if (std::ranges::none_of(counted, is_signal) ||
      std::ranges::any_of(counted, [&](const Test& t) { return is_signal(t) && t.underpowered(); })) {
    return words;
  }
  return words + (over > 1 ? ", all of them gradients; the signals agree" : "; the signals agree");
}

void summarize(StackVerdict& stack) {
  stack.rejected = static_cast<int>(std::ranges::count_if(stack.tests, disagrees));
  const auto worst =
      std::ranges::max_element(stack.tests, {}, [](const Test& t) { return std::pair(t.is_finite(), nearness(t)); });
  if (worst->is_finite()) stack.worst = static_cast<int>(worst - stack.tests.begin());
  stack.power = power_of(stack.tests);
  const Test& decides = *deciding(stack.tests);
  stack.verdict = decides.verdict;
  if (decides.reason.empty()) return;
  stack.reason = decides.name() + ": " + decides.reason;
  if (decides.is_finite() && decides.underpowered()) stack.reason += others_words(stack.tests);
  add_remedy(stack.reason, stack.tests, stack.level, {.width = stack.width});
}

}  // namespace

Power power_of(const std::vector<Test>& tests, std::string_view quantity) {
  std::vector<Test> counted = with_limit(tests);
  if (!quantity.empty()) std::erase_if(counted, [&](const Test& t) { return t.quantity != quantity; });
  if (counted.empty()) return {};
  const auto middle = counted.begin() + static_cast<long>(counted.size() / 2);
  std::ranges::nth_element(counted, middle, {}, &Test::detectable);
  const Test& worst = *std::ranges::max_element(middle, counted.end(), {}, &Test::detectable);
  return {.worst = worst.detectable, .median = middle->detectable, .limit = worst.limit};
}

double judge(const std::vector<Test*>& tests, const Options& options) {
  const double level = judge_each(tests, options.familywise_error);
  for (Test* t : tests) {
    if (t->verdict == Verdict::inconclusive) add_remedy(t->reason, {*t}, level, options);
  }
  return level;
}

void judge(const std::vector<StackVerdict*>& stacks, double familywise_error) {
  std::vector<Test*> tests;
  for (StackVerdict* stack : stacks) {
    for (Test& t : stack->tests) tests.push_back(&t);
  }
  const double level = judge_each(tests, familywise_error);
  for (StackVerdict* stack : stacks) {
    if (stack->tests.empty()) continue;
    stack->level = level;
    summarize(*stack);
  }
}

const Test* deciding(const std::vector<Test>& tests) {
  const auto it = std::ranges::max_element(tests, {}, rank);
  return it == tests.end() ? nullptr : &*it;
}

std::string verdict_words(const Test& test) {
  if (disagrees(test)) return fmt::format("disagrees ({:.1f} / {:.1f})", test.excess(), test.critical);
  return test.reason.empty() ? std::string(name_of(test.verdict))
                             : fmt::format("{} ({})", name_of(test.verdict), test.reason);
}

}  // namespace periscope::judge
