#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "experiments/studies/first_steps/first_steps.h"
#include "sim/numerics/allowances.h"

namespace periscope::first_steps {
namespace {

using judge::Estimate;
using judge::Test;

Estimate at(const Curve& curve, std::size_t i) {
  return {curve.value[i], curve.standard_error.empty() ? 0.0 : curve.standard_error[i]};
}

/// Collects the tests of one stack.
class Collector {
 public:
  Collector(const StackSteps& stack, const FirstStepsConfig& config)
      : stack_(stack), config_(config), rounding_(pass_allowance(format_of(config.run.dtype))) {}

  std::vector<Test> take() {
    const int last = std::min(stack_.prediction.holds_until, static_cast<int>(stack_.measured.size()) - 1);
    add_start();
    for (int step = 1; step <= last; ++step) {
      add_changes(step);
      add_cosines(step);
      add_loss(step);
      add_updates(step);
    }
    return std::move(tests_);
  }

 private:
  /// Where the changes begin: a theory of another stream may predict the same changes.
  void add_start() {
    const Curve& predicted = stack_.prediction.steps.front().second_moment;
    const Curve measured = stack_.measured.front().second_moment.curve();
    for (std::size_t i = 0; i < measured.value.size(); ++i) {
      Test& test = add("second_moment", fmt::format("second_moment x_out[{}]", i), 0, i, at(measured, i),
                       at(predicted, i), config_.agreement.power_limits.second_moment);
      test.scale = std::abs(predicted.value[i]);
      test.tolerated_bias = (stack_.stated.change + rounding_) * test.scale;
    }
  }

  void add_changes(int step) {
    const theory::StepReading& predicted = predicted_at(step);
    const Curve changes = measured_at(step).change.curve();
    const Curve moments = measured_at(step).second_moment.curve();
    for (std::size_t i = 0; i < changes.value.size(); ++i) {
      const double moved = predicted.second_moment.value[i] - stack_.prediction.steps.front().second_moment.value[i];
      const double own = std::max(std::abs(moved), predicted.coherent.value[i]);
      Test& test = add("change", fmt::format("change of second_moment x_out[{}]", i), step, i, at(changes, i),
                       at(predicted.change, i), config_.change_limit);
      test.scale = change_scale(stack_.prediction, static_cast<std::size_t>(step));
      test.tolerated_bias = (stack_.stated.change + predicted.left_out) * own +
                            (predicted.gains + rounding_) * std::abs(moments.value[i]);
    }
  }

  void add_cosines(int step) {
    const theory::StepReading& predicted = predicted_at(step);
    const Curve cosines = measured_at(step).branch_cosine.curve();
    for (std::size_t i = 0; i < cosines.value.size(); ++i) {
      // T15 is of one branch that is added to one stream; of a branch of zeros neither side has a cosine.
      const ModelSpec& model = stack_.spec.model;
      if (!model.step(model.step_with(static_cast<int>(i))).is_one_addition()) continue;
      // What was measured are T15's terms, of which a factor of 0 leaves none.
      const SublayerRule rule = model.rule(static_cast<int>(i));
      if (rule.alpha == 0.0 || rule.beta == 0.0) continue;
      const Estimate cosine = at(predicted.branch_cosine, i);
      if (std::isnan(cosines.value[i]) && std::isnan(cosine.value)) continue;
      add("branch_cosine", fmt::format("branch_cosine B_out[{}]", i), step, i, at(cosines, i), cosine,
          config_.cosine_limit)
          .tolerated_bias = stack_.stated.cosine + predicted.left_out * std::abs(cosine.value) + rounding_;
    }
  }

  void add_loss(int step) {
    const theory::StepReading& predicted = predicted_at(step);
    Test& test = add("loss", "change of the loss", step, 0, at(measured_at(step).loss_change.curve(), 0),
                     at(predicted.loss_change, 0), config_.loss_limit);
    test.scale = std::abs(test.predicted.value);
    test.tolerated_bias =
        (stack_.stated.change + predicted.left_out) * test.scale + rounding_ * std::abs(predicted.loss.value.front());
  }

  void add_updates(int step) {
    const theory::StepReading& predicted = predicted_at(step);
    for (const auto& [weight, rows] : measured_at(step).update) {
      const auto found = predicted.update.find(weight);
      if (found == predicted.update.end()) continue;
      const Curve sizes = rows.curve();
      for (std::size_t i = 0; i < sizes.value.size(); ++i) {
        Test& test = add("update", fmt::format("update of W_{}[{}]", periscope::name_of(weight), i), step, i,
                         at(sizes, i), at(found->second, i), config_.update_limit);
        test.weight = weight;
        test.scale = std::abs(test.predicted.value);
        test.tolerated_bias = (stack_.stated.update + predicted.left_out + rounding_) * test.scale;
      }
    }
  }

  Test& add(const char* quantity, const std::string& name, int step, std::size_t place, const Estimate& measured,
            const Estimate& predicted, double limit) {
    return tests_.emplace_back(Test{.index = static_cast<int>(place),
                                    .step = step,
                                    .quantity = quantity,
                                    .label = fmt::format("{} at step {}", name, step),
                                    .measured = measured,
                                    .predicted = predicted,
                                    .limit = limit,
                                    .seeds = stack_.seeds,
                                    .replicates = config_.chains,
                                    .precision_key = "first_steps.chains"});
  }

  [[nodiscard]] const theory::StepReading& predicted_at(int step) const {
    return stack_.prediction.steps[static_cast<std::size_t>(step)];
  }
  [[nodiscard]] const MeasuredStep& measured_at(int step) const {
    return stack_.measured[static_cast<std::size_t>(step)];
  }

  const StackSteps& stack_;
  const FirstStepsConfig& config_;
  double rounding_;
  std::vector<Test> tests_;
};

std::string withheld(const StackSteps& stack) {
  if (!stack.prediction.refusal.empty()) return stack.prediction.refusal;
  if (!stack.unusable.empty()) return stack.unusable;
  if (stack.seeds < judge::fewest_seeds) {
    return fmt::format("a verdict needs {} seeds, not {}", judge::fewest_seeds, stack.seeds);
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
    stack.verdict = {.reason = withheld(stack), .width = stack.spec.model.width};
    if (stack.verdict.reason.empty()) stack.verdict.tests = Collector(stack, config).take();
    verdicts.push_back(&stack.verdict);
  }
  judge::judge(verdicts, config.agreement.familywise_error);
}

bool any_disagrees(const FirstStepsResult& result) {
  return std::ranges::any_of(result.stacks, [](const StackSteps& s) { return judge::disagrees(s.verdict); });
}

}  // namespace periscope::first_steps
