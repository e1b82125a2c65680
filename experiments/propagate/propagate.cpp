#include "experiments/propagate/propagate.h"

#include "experiments/common/stacks.h"
#include "experiments/common/told.h"
#include "experiments/common/told_effect.h"

namespace periscope::propagate {

PropagateResult predict(const Config& config, Progress& progress) {
  PropagateResult result;
  result.stopped_early = until_stopped(
      [&] { result.stacks = predict_stacks(config, config.theory.finite_width.value_or(false), progress); });
  return result;
}

PropagateResult run(const Config& config, Progress& progress) {
  PropagateResult result;
  MeasuredStacks measured;
  const bool at_width = config.theory.finite_width.value_or(true);
  require_fault_acts(config);
  require_told_is_seen(config, "propagate", at_width, verdict_numbers);
  result.stopped_early = until_stopped([&] {
    result.stacks = predict_stacks(config, at_width, progress);
    measured = measure_stacks(config, "propagate", progress);
  });
  if (result.stopped_early) return result;
  std::vector<const theory::Prediction*> predictions;
  for (const StackResult& stack : result.stacks) predictions.push_back(&stack.prediction);
  const std::vector<Agreement> agreements = judge_stacks(measured, predictions, config.agreement);
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    result.stacks[i].measurement = measured.measurements[i];
    result.stacks[i].agreement = agreements[i];
  }
  return result;
}

}  // namespace periscope::propagate
