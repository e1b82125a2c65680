#include "experiments/propagate/propagate.h"

#include "experiments/common/stacks.h"

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
  result.stopped_early = until_stopped([&] {
    result.stacks = predict_stacks(config, config.theory.finite_width.value_or(true), progress);
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
