#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/studies/first_steps/first_steps.h"
#include "sim/numerics/tolerances.h"

namespace periscope::first_steps {
namespace {

using judge::Test;

/// Returns whether the sublayer adds one branch to one stream with nonzero factors (T15); else no cosine is defined.
bool has_cosine(const ModelSpec& model, int sublayer) {
  const SublayerRule rule = model.rule(sublayer);
  return model.step(model.step_with(sublayer)).is_one_addition() && rule.alpha != 0.0 && rule.beta != 0.0;
}

std::vector<Test> tests_of(const StackSteps& stack, const FirstStepsConfig& config) {
  std::vector<Test> tests;
  const double rounding = forward_tolerance(format_of(config.run.dtype));
  // Adds a test for each index at which the measured or the predicted value is not NaN; `set` completes it. `name` is
  // an fmt format string that takes the index.
  const auto add = [&](const char* quantity, const std::string& name, std::size_t step, const Curve& measured,
                       const Curve& predicted, double limit, const auto& set) {
    for (std::size_t i = 0; i < measured.value.size(); ++i) {
      if (std::isnan(measured.value[i]) && std::isnan(predicted.value[i])) continue;
      set(tests.emplace_back(Test{.index = static_cast<int>(i),
                                  .quantity = quantity,
                                  .label = fmt::format(fmt::runtime(name), i) + fmt::format(" at step {}", step),
                                  .measured = judge::entry(measured, i),
                                  .predicted = judge::entry(predicted, i),
                                  .limit = limit,
                                  .seeds = stack.seeds,
                                  .replicates = config.replicates,
                                  .precision_key = "first_steps.replicates"}));
    }
  };
  const auto relative = [](Test& test, double bias) {
    test.scale = std::abs(test.predicted.value);
    test.tolerated_bias = bias * test.scale;
  };
  const theory::StepReading& start = stack.prediction.steps.front();
  // Step 0 is compared too: a theory with a different initial stream could predict the same changes.
  add("second_moment", "second_moment x_out[{}]", 0, stack.measured.front().second_moment, start.second_moment,
      config.agreement.power_limits.second_moment,
      [&](Test& test) { relative(test, stack.tolerated.change + rounding); });
  const auto last = static_cast<std::size_t>(stack.prediction.holds_until);
  for (std::size_t step = 1; step <= last && step < stack.measured.size(); ++step) {
    const theory::StepReading& measured = stack.measured[step];
    const theory::StepReading& predicted = stack.prediction.steps[step];
    add("change", "change of second_moment x_out[{}]", step, measured.change, predicted.change, config.change_limit,
        [&](Test& test) {
          const auto i = static_cast<std::size_t>(test.index);
          const double moved = std::abs(predicted.second_moment.value[i] - start.second_moment.value[i]);
          test.scale = change_scale(stack.prediction, step);
          test.tolerated_bias =
              (stack.tolerated.change + predicted.neglected) * std::max(moved, predicted.coherent.value[i]) +
              (predicted.gain_drift + rounding) * std::abs(measured.second_moment.value[i]);
        });
    Curve cosines = predicted.branch_cosine;
    for (std::size_t i = 0; i < cosines.value.size(); ++i) {
      if (!has_cosine(stack.spec.model, static_cast<int>(i))) cosines.value[i] = std::nan("");
    }
    add("branch_cosine", "branch_cosine B_out[{}]", step, measured.branch_cosine, cosines, config.cosine_limit,
        [&](Test& test) {
          test.tolerated_bias =
              stack.tolerated.cosine + predicted.neglected * std::abs(test.predicted.value) + rounding;
        });
    add("loss", "change of the loss", step, measured.loss_change, predicted.loss_change, config.loss_limit,
        [&](Test& test) {
          relative(test, stack.tolerated.change + predicted.neglected);
          test.tolerated_bias += rounding * std::abs(predicted.loss.value.front());
        });
    for (const auto& [weight, update] : measured.update) {
      const auto found = predicted.update.find(weight);
      if (found == predicted.update.end()) continue;
      add("update", fmt::format("update of W_{}[{{}}]", periscope::name_of(weight)), step, update, found->second,
          config.update_limit, [&, matrix = weight](Test& test) {
            test.weight = matrix;
            relative(test, stack.tolerated.change + predicted.neglected + rounding);
          });
    }
  }
  return tests;
}

std::string why_not_judged(const StackSteps& stack) {
  if (!stack.prediction.unsupported.empty()) return stack.prediction.unsupported;
  if (!stack.unusable.empty()) return stack.unusable;
  if (stack.seeds < judge::fewest_seeds) {
    return fmt::format("a verdict needs {} seeds, found {}", judge::fewest_seeds, stack.seeds);
  }
  if (stack.prediction.holds_until < 1) return "theory stops before the first step: " + stack.prediction.stopped_by;
  return "";
}

}  // namespace

double change_scale(const theory::FirstSteps& prediction, std::size_t step) {
  const Curve& before = prediction.steps.front().second_moment;
  const theory::StepReading& now = prediction.steps[step];
  double largest = 0.0;
  for (std::size_t i = 0; i < before.value.size(); ++i) {
    const double change = std::abs(now.second_moment.value[i] - before.value[i]);
    for (const double size : {change, now.coherent.value[i]}) largest = std::max(largest, size);
  }
  return largest;
}

void judge_steps(std::vector<StackSteps>& stacks, const FirstStepsConfig& config) {
  std::vector<judge::StackVerdict*> verdicts;
  for (StackSteps& stack : stacks) {
    stack.verdict = {.reason = why_not_judged(stack), .width = stack.spec.model.width};
    if (stack.verdict.reason.empty()) stack.verdict.tests = tests_of(stack, config);
    verdicts.push_back(&stack.verdict);
  }
  judge::judge(verdicts, config.agreement.familywise_error);
}

bool any_disagrees(const FirstStepsResult& result) {
  return std::ranges::any_of(result.stacks, [](const StackSteps& s) { return judge::disagrees(s.verdict); });
}

}  // namespace periscope::first_steps
