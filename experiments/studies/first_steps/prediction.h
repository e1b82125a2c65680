#pragma once

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/first_steps/config.h"
#include "sim/train/corpus.h"

namespace periscope::first_steps {

/// Converts the settings of [train] to the theory's optimizer settings.
[[nodiscard]] theory::OptimizerLaw optimizer_of(const TrainSpec& train);

/// Returns the inputs of the prediction: the batches of every seed (a replicate uses one seed's batches), the held-out
/// windows and the optimizer.
[[nodiscard]] theory::FirstStepsInput prediction_input(const FirstStepsConfig& config, const Corpus& corpus);

/// Returns the prediction for the stack `overridden`, computed or from the cache. Counts as one progress task, named
/// "`label`: theory".
[[nodiscard]] theory::FirstSteps predict(const FirstStepsConfig& config, const StackSpec& overridden,
                                         const theory::FirstStepsInput& input, const std::string& label,
                                         stacks::Progress& progress);

/// Throws ConfigError if --theory-set or a planted fault changes no compared number of any stack. Checks this with two
/// replicates of few neurons over the first steps.
void require_effective_override(const FirstStepsConfig& config, const theory::FirstStepsInput& input);

/// Returns the memory estimate of the batches and of the predictions, which run one after another.
[[nodiscard]] stacks::MemoryEstimate prediction_memory(const FirstStepsConfig& config);

/// Tolerated bias for terms of order 1/D, which the theory neglects. Measured updates show no bias of this order
/// (docs/lab_notes/first_steps.md).
struct ToleratedBias {
  double change = 0.0;  ///< relative, of second moments, losses and updates
  double cosine = 0.0;  ///< absolute
};
[[nodiscard]] ToleratedBias tolerated_bias(const StackSpec& spec);

}  // namespace periscope::first_steps
