#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "experiments/studies/first_steps/first_steps.h"
#include "sim/numerics/allowances.h"

namespace periscope::first_steps {
namespace {

using judge::Estimate;
using judge::Finding;
using judge::Verdict;

Estimate at(const Curve& curve, std::size_t i) {
  return {curve.value[i], curve.standard_error.empty() ? 0.0 : curve.standard_error[i]};
}

/// Collects the cells of one stack.
class Collector {
 public:
  Collector(const StackSteps& stack, const FirstStepsConfig& config) : stack_(stack), config_(config) {}

  std::vector<ComparedCell> take() {
    const int last = std::min(stack_.prediction.holds_until, static_cast<int>(stack_.measured.size()) - 1);
    add_start();
    for (int step = 1; step <= last; ++step) add_step(step);
    return std::move(cells_);
  }

 private:
  /// Where the changes begin: a theory of another stream may predict the same changes.
  void add_start() {
    const Curve& predicted = stack_.prediction.steps.front().second_moment;
    const Curve measured = stack_.measured.front().second_moment.curve();
    const double rounding = pass_allowance(format_of(config_.run.dtype));
    for (std::size_t i = 0; i < measured.value.size(); ++i) {
      const double scale = std::abs(predicted.value[i]);
      add(Quantity::second_moment, 0, i, at(measured, i), at(predicted, i), (stack_.stated.change + rounding) * scale,
          scale, config_.agreement.power_limits.second_moment);
    }
  }

  void add_step(int step) {
    const auto s = static_cast<std::size_t>(step);
    const theory::StepReading& predicted = stack_.prediction.steps[s];
    const theory::StepReading& before = stack_.prediction.steps.front();
    const MeasuredStep& measured = stack_.measured[s];
    const double rounding = pass_allowance(format_of(config_.run.dtype));
    const double scale = change_scale(stack_.prediction, s);
    const Curve changes = measured.change.curve();
    const Curve moments = measured.second_moment.curve();
    for (std::size_t i = 0; i < changes.value.size(); ++i) {
      const Estimate q = at(predicted.second_moment, i);
      const double own = std::max(std::abs(q.value - before.second_moment.value[i]), predicted.coherent.value[i]);
      add(Quantity::change, step, i, at(changes, i), at(predicted.change, i),
          (stack_.stated.change + predicted.left_out) * own + (predicted.gains + rounding) * std::abs(moments.value[i]),
          scale, config_.change_limit);
    }
    const Curve cosines = measured.branch_cosine.curve();
    for (std::size_t i = 0; i < cosines.value.size(); ++i) {
      // T15 is of one branch that is added to one stream; of a branch of zeros neither side has a cosine.
      const ModelSpec& model = stack_.spec.model;
      if (!model.step(model.step_with(static_cast<int>(i))).is_one_addition()) continue;
      // What was measured are T15's terms, of which a factor of 0 leaves none.
      const SublayerRule rule = model.rule(static_cast<int>(i));
      if (rule.alpha == 0.0 || rule.beta == 0.0) continue;
      if (std::isnan(cosines.value[i]) && std::isnan(predicted.branch_cosine.value[i])) continue;
      add(Quantity::branch_cosine, step, i, at(cosines, i), at(predicted.branch_cosine, i),
          stack_.stated.cosine + predicted.left_out * std::abs(predicted.branch_cosine.value[i]) + rounding, 1.0,
          config_.cosine_limit);
    }
    const Estimate loss = at(predicted.loss_change, 0);
    add(Quantity::loss, step, 0, at(measured.loss_change.curve(), 0), loss,
        (stack_.stated.change + predicted.left_out) * std::abs(loss.value) +
            rounding * std::abs(predicted.loss.value.front()),
        std::abs(loss.value), config_.loss_limit);
    for (const auto& [weight, rows] : measured.update) {
      const auto found = predicted.update.find(weight);
      if (found == predicted.update.end()) continue;
      const Curve sizes = rows.curve();
      for (std::size_t i = 0; i < sizes.value.size(); ++i) {
        const Estimate size = at(found->second, i);
        add(Quantity::update, step, i, at(sizes, i), size,
            (stack_.stated.update + predicted.left_out + rounding) * std::abs(size.value), std::abs(size.value),
            config_.update_limit);
        cells_.back().weight = weight;
      }
    }
  }

  void add(Quantity quantity, int step, std::size_t place, const Estimate& measured, const Estimate& predicted,
           double allowance, double scale, double limit) {
    cells_.push_back({.quantity = quantity,
                      .step = step,
                      .place = static_cast<int>(place),
                      .finding = {.measured = measured,
                                  .seeds = stack_.seeds,
                                  .predicted = predicted,
                                  .replicates = config_.chains,
                                  .allowance = allowance,
                                  .scale = scale,
                                  .power_limit = limit}});
  }

  const StackSteps& stack_;
  const FirstStepsConfig& config_;
  std::vector<ComparedCell> cells_;
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

void conclude(StepsVerdict& verdict) {
  std::vector<Finding> findings;
  for (const ComparedCell& cell : verdict.cells) {
    findings.push_back(cell.finding);
    verdict.rejected += cell.finding.verdict == Verdict::disagrees ? 1 : 0;
  }
  const Finding* found = judge::deciding(findings);
  if (found == nullptr) return;
  verdict.worst = static_cast<int>(found - findings.data());
  verdict.verdict = found->verdict;
  if (!found->reason.empty()) {
    verdict.reason = verdict.cells[static_cast<std::size_t>(verdict.worst)].name() + " " + found->reason;
  }
}

/// The width of all stacks; 0 if they differ: no remedy can then name one.
int common_width(const std::vector<StackSteps>& stacks) {
  const int width = stacks.empty() ? 0 : stacks.front().spec.model.width;
  const bool same = std::ranges::all_of(stacks, [&](const StackSteps& s) { return s.spec.model.width == width; });
  return same ? width : 0;
}

}  // namespace

std::string ComparedCell::name() const {
  switch (quantity) {
    case Quantity::second_moment: return fmt::format("second_moment x_out[{}] at step {}", place, step);
    case Quantity::change: return fmt::format("change of second_moment x_out[{}] at step {}", place, step);
    case Quantity::branch_cosine: return fmt::format("branch_cosine B_out[{}] at step {}", place, step);
    case Quantity::update:
      return fmt::format("update of W_{}[{}] at step {}", periscope::name_of(weight.value_or(Weight::o)), place, step);
    case Quantity::loss: break;
  }
  return fmt::format("change of the loss at step {}", step);
}

StepsPower power_of(const std::vector<ComparedCell>& cells, std::optional<Quantity> quantity) {
  StepsPower power;
  std::vector<double> errors;
  for (const ComparedCell& cell : cells) {
    if (quantity && cell.quantity != *quantity) continue;
    errors.push_back(cell.finding.power);
    power.worst = std::max(power.worst, cell.finding.power);
    if (quantity) power.limit = cell.finding.power_limit;
  }
  if (errors.empty()) return power;
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::ranges::nth_element(errors, middle);
  power.median = *middle;
  return power;
}

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
  std::vector<Finding*> findings;
  for (StackSteps& stack : stacks) {
    stack.verdict = {.verdict = Verdict::not_checked, .reason = withheld(stack), .cells = {}};
    if (!stack.verdict.reason.empty()) continue;
    stack.verdict.cells = Collector(stack, config).take();
    for (ComparedCell& cell : stack.verdict.cells) findings.push_back(&cell.finding);
  }
  judge::decide(findings, config.agreement.familywise_error, common_width(stacks), "first_steps.chains");
  for (StackSteps& stack : stacks) {
    if (!stack.verdict.cells.empty()) conclude(stack.verdict);
  }
}

bool any_disagrees(const FirstStepsResult& result) {
  return std::ranges::any_of(result.stacks,
                             [](const StackSteps& s) { return s.verdict.verdict == Verdict::disagrees; });
}

}  // namespace periscope::first_steps
