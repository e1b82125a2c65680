#include <fmt/format.h>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/first_steps/first_steps.h"

namespace periscope::first_steps {
namespace {

/// Returns a curve's last value with its standard error, or "–" if the curve is empty.
std::string top_of(const Curve& curve) {
  return curve.value.empty() ? "–" : dataset::with_error(curve.value.back(), curve.standard_error.back());
}

/// Returns the last step for which the theory is valid, the reason and a remedy; "" if it is valid to the end.
std::string stop_line(const StackSteps& stack) {
  const theory::FirstSteps& p = stack.prediction;
  if (p.stopped_by.empty()) return "";
  return fmt::format(
      "{}: theory stops after step {} of {}: {}. Lower train.lr to predict more steps, or train the stack instead "
      "(periscope train).\n",
      config::placement_label(stack.spec), p.holds_until, p.steps.size() - 1, p.stopped_by);
}

std::string verdict_line(const StackSteps& stack) {
  const judge::StackVerdict& v = stack.verdict;
  std::string line = fmt::format("{}: {}", config::placement_label(stack.spec), judge::name_of(v.verdict));
  if (!v.reason.empty()) line += fmt::format(" ({})", v.reason);
  if (v.worst < 0) return line + "\n";
  const judge::Test& worst = v.worst_test();
  line += fmt::format(
      "; {} of {} tests rejected; nearest to rejection: {}, measured {}, predicted {}, excess {:.1f} (critical {:.1f})",
      v.rejected, v.tests.size(), worst.name(), judge::plus_minus(worst.measured), judge::plus_minus(worst.predicted),
      worst.excess(), worst.critical);
  for (const char* quantity : {"second_moment", "change", "branch_cosine", "loss", "update"}) {
    const judge::Power power = judge::power_of(v.tests, quantity);
    if (power.limit == 0.0) continue;  // not compared
    line += fmt::format("; detectable error of {}: worst {}, median {}, limit {:g}", quantity,
                        judge::error_words(power.worst), judge::error_words(power.median), power.limit);
  }
  return line + "\n";
}

}  // namespace

std::string table(const FirstStepsConfig& config, const FirstStepsResult& result) {
  static const theory::StepReading none;
  dataset::TextTable table({"placement", ">step", ">top second moment", ">predicted", ">coherent part", ">top cosine",
                            ">predicted", ">change of the loss", ">predicted"});
  for (const StackSteps& stack : result.stacks) {
    for (std::size_t s = 0; s < stack.measured.size(); ++s) {
      const theory::StepReading& m = stack.measured[s];
      const std::vector<theory::StepReading>& steps = stack.prediction.steps;
      const bool predicted = s < steps.size() && static_cast<int>(s) <= stack.prediction.holds_until;
      const theory::StepReading& p = predicted ? steps[s] : none;
      table.add({s == 0 ? config::placement_label(stack.spec) : "", fmt::format("{}", s), top_of(m.second_moment),
                 top_of(p.second_moment), top_of(p.coherent), top_of(m.branch_cosine), top_of(p.branch_cosine),
                 top_of(m.loss_change), top_of(p.loss_change)});
    }
  }
  std::string text =
      table.text() +
      "Measured on the held-out windows after every step, mean over seeds ± standard error; predicted from the batches "
      "(T28). Coherent part: the part of the second moment along the gradients. Cosine: between the last branch and "
      "the stream to which it is added. No predictions are shown after the last step for which the theory is valid.\n";
  for (const StackSteps& stack : result.stacks) text += stop_line(stack);
  for (const StackSteps& stack : result.stacks) text += verdict_line(stack);
  return dataset::wrap_to_table_width(text) + config::override_lines(config, fault_of(config));
}

}  // namespace periscope::first_steps
