#include "experiments/engine/judge/stack_verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <tuple>

#include "experiments/engine/judge/seed_rows.h"

namespace periscope::judge {
namespace {

/// Key of a group of tests with a common contrast: statistic, signal or weight, and for modules "attention " or "mlp ".
using Group = std::tuple<Statistic, Signal, std::optional<Weight>, std::string>;

Group group_of(const Test& test) {
  std::string kind;
  if (!test.weight && test.signal == Signal::f_out) kind = ModelSpec::is_attention(test.index) ? "attention " : "mlp ";
  return {test.statistic, test.signal, test.weight, kind};
}

/// Returns the curve that a test refers to; null if the profile does not contain it.
const Curve* curve_of(const Profile& profile, const Test& test) {
  return test.weight ? profile.find(test.statistic, *test.weight) : profile.find(test.statistic, test.signal);
}

/// Returns the weighted sum over tests of value / scale, averaged over profiles of seeds or replicates.
Estimate weighted(std::span<const Profile> profiles, const std::vector<const Test*>& tests,
                  const std::vector<double>& weights) {
  std::vector<double> sums;
  for (const Profile& profile : profiles) {
    const std::vector<double>& row = curve_of(profile, *tests.front())->value;
    double& sum = sums.emplace_back(0.0);
    for (std::size_t i = 0; i < tests.size(); ++i) {
      sum += weights[i] * row.at(static_cast<std::size_t>(tests[i]->index)) / tests[i]->scale;
    }
  }
  return mean_over_seeds(sums);
}

/// Sets the error and spread of the predicted sum weighted() from the replicates of the finite-width chain (T25). Only
/// the spread among replicates of the same sequence of token ids counts.
void use_replicates(const theory::Prediction& prediction, const std::vector<const Test*>& tests,
                    const std::vector<double>& weights, Test& result) {
  const int block = prediction.replicates_per_sequence;
  const auto size = static_cast<std::size_t>(block);
  double squares = 0.0;
  for (std::span<const Profile> rest = prediction.replicate_profiles; rest.size() >= size; rest = rest.subspan(size)) {
    const double error = weighted(rest.first(size), tests, weights).error;  // NaN for one replicate
    squares += error * error * block * (block - 1.0);
  }
  result.spread_degrees = prediction.finite_width_degrees;
  result.replicates = prediction.finite_width_replicates;
  result.spread = std::sqrt(squares / result.spread_degrees);
  result.predicted.error = result.spread / std::sqrt(result.replicates);
}

Test contrast(const std::string& name, std::span<const Profile> seeds, const std::vector<const Test*>& tests,
              const std::vector<double>& weights) {
  Test result = *tests.front();
  result.contrast = name;
  result.index = 0;
  result.scale = 1.0;
  result.measured = weighted(seeds, tests, weights);  // the prediction is subtracted below
  result.predicted = {};
  result.tolerated_bias = 0.0;
  result.spread_degrees = 0;  // the copied value belongs to a single test, not to the sum
  double predicted = 0.0;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    const Test& test = *tests[i];
    predicted += weights[i] * test.predicted.value / test.scale;
    result.predicted.error += std::abs(weights[i]) * test.predicted.error / test.scale;
    result.tolerated_bias += std::abs(weights[i]) * test.tolerated_bias / test.scale;
  }
  result.measured.value -= predicted;
  return result;
}

/// Returns why a comparison cannot be judged, or "".
std::string not_checked_reason(const Comparison& c) {
  if (!c.prediction.unsupported.empty()) return c.prediction.unsupported;
  const Measurement& m = c.measured;
  if (m.diverged_seeds > 0) return fmt::format("{} of {} seeds diverged", m.diverged_seeds, m.seeds);
  if (m.seeds < fewest_seeds) return fmt::format("a verdict needs {} seeds, found {}", fewest_seeds, m.seeds);
  return {};
}

StackVerdict tests_of(const Comparison& c, const config::AgreementOptions& options) {
  StackVerdict stack{.reason = not_checked_reason(c), .width = c.spec.model.width};
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

std::vector<Test> contrasts(const Comparison& comparison, const std::vector<Test>& tests,
                            const config::PowerLimits& limits) {
  const std::vector<Profile>& per_seed = comparison.measured.per_seed;
  if (per_seed.empty()) return {};
  std::map<Group, std::vector<const Test*>> groups;
  for (const Test& test : tests) {
    // Contrasts omit tests of grad_sq, which replace tests of log_grad_sq for gradients near zero.
    if (test.statistic == Statistic::grad_sq || !test.is_finite() || !(test.scale > 0.0)) continue;
    groups[group_of(test)].push_back(&test);
  }
  std::vector<Test> all;
  for (const auto& entry : groups) {
    const std::vector<const Test*>& members = entry.second;
    const Test& first = *members.front();
    if (curve_of(per_seed.front(), first) == nullptr || members.size() < 2) continue;
    const std::vector<double> equal(members.size(), 1.0 / static_cast<double>(members.size()));
    const bool has_replicates = !first.weight &&
                                comparison.prediction.exact_at_width_for(first.statistic, first.signal) &&
                                comparison.prediction.replicates_per_sequence > 1;
    const auto add = [&](const std::string& name, const std::vector<double>& weights, double in_limits) {
      Test test = contrast(std::get<std::string>(entry.first) + name, per_seed, members, weights);
      if (has_replicates) use_replicates(comparison.prediction, members, weights, test);
      test.limit = in_limits * limit_of(limits, test.statistic);
      all.push_back(test);
    };
    add("mean", equal, 1.0);
    if (members.size() < 3) continue;
    std::vector<double> x;
    for (const Test* test : members) x.push_back(test->index);
    std::vector<double> slope = slope_weights(x);
    for (double& w : slope) w *= x.back() - x.front();
    add("slope", slope, 2.0);
  }
  return all;
}

std::vector<StackVerdict> verdicts_of(const std::vector<Comparison>& comparisons,
                                      const config::AgreementOptions& options) {
  std::vector<StackVerdict> stacks;
  for (const Comparison& c : comparisons) stacks.push_back(tests_of(c, options));
  std::vector<StackVerdict*> all;
  for (StackVerdict& stack : stacks) all.push_back(&stack);
  judge(all, options.familywise_error);
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const std::string& unsupported = comparisons[i].prediction.gradient_unsupported;
    const bool measured = comparisons[i].measured.profile.find(Statistic::grad_sq, Signal::x_out) != nullptr;
    if (stacks[i].verdict == Verdict::inconclusive && measured && !unsupported.empty()) {
      stacks[i].reason = "gradients are not predicted: " + unsupported;
    }
  }
  return stacks;
}

}  // namespace periscope::judge
