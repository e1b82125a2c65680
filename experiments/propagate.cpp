#include "experiments/propagate.h"

#include "experiments/common/measured_stacks.h"
#include "experiments/common/token_ids.h"
#include "experiments/common/told.h"
#include "theory/finite_width.h"

namespace periscope {

std::vector<StackResult> predict_stacks(const Config& config, bool at_width, const Progress& progress) {
  require_fault_acts(config);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> told = config.told_stacks();
  std::vector<StackResult> results;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    progress.throw_if_stop_requested();
    const StackSpec& spec = stacks[i];
    StackResult result{.spec = spec, .prediction = {}, .measurement = {}, .agreement = {}};
    theory::PredictionOptions options{.tolerance = config.theory.tolerance,
                                      .gradient_tolerance = config.theory.gradient_tolerance,
                                      .seed = config.run.seed,
                                      .fault = config.theory.fault};
    if (config.run.backward) options.labels = distinct_label_ids(spec, config.run.seed, config.run.seeds);
    // Token ids and labels are the run's own, whatever else theory is told.
    const std::vector<std::vector<int>> ids = distinct_token_ids(spec, config.run.seed, config.run.seeds);
    result.prediction = theory::predict(told[i], ids, options);
    if (at_width) {
      theory::predict_at_width(told[i], ids,
                               {.seeds = config.run.seeds,
                                .replicates = config.theory.replicates,
                                .seed = config.run.seed,
                                .fault = config.theory.fault},
                               result.prediction);
    }
    results.push_back(std::move(result));
  }
  return results;
}

PropagateResult predict(const Config& config, Progress& progress) {
  PropagateResult result;
  result.stopped_early = until_stopped(
      [&] { result.stacks = predict_stacks(config, config.theory.finite_width.value_or(false), progress); });
  return result;
}

PropagateResult propagate(const Config& config, Progress& progress) {
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

}  // namespace periscope
