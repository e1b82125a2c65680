#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

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
    const auto last = static_cast<std::size_t>(stack_.prediction.holds_until);
    add_start();
    for (std::size_t step = 1; step <= last && step < stack_.measured.size(); ++step) {
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
    for (Test& test :
         add("second_moment", "second_moment x_out[{}]", 0, stack_.measured.front().second_moment,
             stack_.prediction.steps.front().second_moment, config_.agreement.power_limits.second_moment)) {
      test.scale = std::abs(test.predicted.value);
      test.tolerated_bias = (stack_.stated.change + rounding_) * test.scale;
    }
  }

  void add_changes(std::size_t step) {
    const theory::StepReading& predicted = stack_.prediction.steps[step];
    const Curve moments = stack_.measured[step].second_moment.curve();
    for (Test& test : add("change", "change of second_moment x_out[{}]", step, stack_.measured[step].change,
                          predicted.change, config_.change_limit)) {
      const auto i = static_cast<std::size_t>(test.index);
      const double moved = predicted.second_moment.value[i] - stack_.prediction.steps.front().second_moment.value[i];
      const double own = std::max(std::abs(moved), predicted.coherent.value[i]);
      test.scale = change_scale(stack_.prediction, step);
      test.tolerated_bias = (stack_.stated.change + predicted.left_out) * own +
                            (predicted.gains + rounding_) * std::abs(moments.value[i]);
    }
  }

  void add_cosines(std::size_t step) {
    const theory::StepReading& predicted = stack_.prediction.steps[step];
    Curve cosines = predicted.branch_cosine;
    for (std::size_t i = 0; i < cosines.value.size(); ++i) {
      if (!has_cosine(static_cast<int>(i))) cosines.value[i] = std::nan("");
    }
    for (Test& test : add("branch_cosine", "branch_cosine B_out[{}]", step, stack_.measured[step].branch_cosine,
                          cosines, config_.cosine_limit)) {
      test.tolerated_bias = stack_.stated.cosine + predicted.left_out * std::abs(test.predicted.value) + rounding_;
    }
  }
  /// True where one branch is added to one stream, as in T15, with factors other than 0: else nothing is measured.
  [[nodiscard]] bool has_cosine(int sublayer) const {
    const ModelSpec& model = stack_.spec.model;
    const SublayerRule rule = model.rule(sublayer);
    return model.step(model.step_with(sublayer)).is_one_addition() && rule.alpha != 0.0 && rule.beta != 0.0;
  }

  void add_loss(std::size_t step) {
    const theory::StepReading& predicted = stack_.prediction.steps[step];
    Test& test = add("loss", "change of the loss", step, stack_.measured[step].loss_change, predicted.loss_change,
                     config_.loss_limit)
                     .front();
    test.scale = std::abs(test.predicted.value);
    test.tolerated_bias =
        (stack_.stated.change + predicted.left_out) * test.scale + rounding_ * std::abs(predicted.loss.value.front());
  }

  void add_updates(std::size_t step) {
    const theory::StepReading& predicted = stack_.prediction.steps[step];
    for (const auto& [weight, rows] : stack_.measured[step].update) {
      const auto found = predicted.update.find(weight);
      if (found == predicted.update.end()) continue;
      for (Test& test : add("update", fmt::format("update of W_{}[{{}}]", periscope::name_of(weight)), step, rows,
                            found->second, config_.update_limit)) {
        test.weight = weight;
        test.scale = std::abs(test.predicted.value);
        test.tolerated_bias = (stack_.stated.update + predicted.left_out + rounding_) * test.scale;
      }
    }
  }

  /// Adds a test for every number of a curve that either side has; `name` is a format of fmt's, of the number's index.
  std::span<Test> add(const char* quantity, const std::string& name, std::size_t step, const judge::SeedRows& rows,
                      const Curve& predicted, double limit) {
    const std::size_t first = tests_.size();
    const Curve measured = rows.curve();
    for (std::size_t i = 0; i < measured.value.size(); ++i) {
      if (std::isnan(measured.value[i]) && std::isnan(predicted.value[i])) continue;
      tests_.push_back({.index = static_cast<int>(i),
                        .step = static_cast<int>(step),
                        .quantity = quantity,
                        .label = fmt::format(fmt::runtime(name), i) + fmt::format(" at step {}", step),
                        .measured = at(measured, i),
                        .predicted = at(predicted, i),
                        .limit = limit,
                        .seeds = stack_.seeds,
                        .replicates = config_.chains,
                        .precision_key = "first_steps.chains"});
    }
    return std::span(tests_).subspan(first);
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
