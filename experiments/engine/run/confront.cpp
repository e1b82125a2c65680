#include "experiments/engine/run/confront.h"

#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/theory_override.h"

namespace periscope::stacks {

ConfrontedStacks predict_alone(const config::Config& config, Progress& progress) {
  ConfrontedStacks result;
  const bool at_width = config.theory.finite_width.value_or(false);
  progress.begin("theory", tasks_of_stacks(config, at_width, false));
  result.stopped_early = until_stopped([&] { result.stacks = predict_stacks(config, at_width, progress); });
  return result;
}

ConfrontedStacks confront(const config::Config& config, const std::string& what, Progress& progress) {
  ConfrontedStacks result;
  MeasuredStacks measured;
  const bool at_width = config.theory.finite_width.value_or(true);
  config::require_fault_acts(config);
  require_override_is_seen(config, what, at_width, verdict_numbers);
  progress.begin(what, tasks_of_stacks(config, at_width, true));
  result.stopped_early = until_stopped([&] {
    result.stacks = predict_stacks(config, at_width, progress);
    measured = measure_stacks(config, progress);
  });
  if (result.stopped_early) return result;
  progress.finish("judging");
  std::vector<const theory::Prediction*> predictions;
  for (const StackResult& stack : result.stacks) predictions.push_back(&stack.prediction);
  const std::vector<judge::StackVerdict> verdicts = judge_stacks(measured, predictions, config.agreement);
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    result.stacks[i].measurement = measured.measurements[i];
    result.stacks[i].judged = verdicts[i];
  }
  result.per_seed = std::move(measured.per_seed);
  return result;
}

}  // namespace periscope::stacks
