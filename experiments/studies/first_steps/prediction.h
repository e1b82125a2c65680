#pragma once

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/first_steps/config.h"
#include "sim/train/corpus.h"

namespace periscope::first_steps {

/// Returns the optimizer of [train] as the theory needs it.
[[nodiscard]] theory::OptimizerLaw optimizer_of(const TrainSpec& train);

/// What theory is told of a run: the batches of its seeds, of which a chain uses one each, the windows of the records,
/// the optimizer.
[[nodiscard]] theory::FirstStepsInput prediction_input(const FirstStepsConfig& config, const Corpus& corpus);

/// Predicts the stack `told`, unless it is cached. One task of progress, called "`label`: theory".
[[nodiscard]] theory::FirstSteps predict(const FirstStepsConfig& config, const StackSpec& told,
                                         const theory::FirstStepsInput& input, const std::string& label,
                                         stacks::Progress& progress);

/// Throws ConfigError if --theory-set overrides the specification, or the theory carries a planted fault, and none of
/// the numbers that a verdict compares changes by it in any stack. Compares predictions of two chains of few neurons
/// over the first steps.
void require_override_is_seen(const FirstStepsConfig& config, const theory::FirstStepsInput& input);

/// What the predictions need, one after the other, the batches with them.
[[nodiscard]] stacks::MemoryEstimate prediction_memory(const FirstStepsConfig& config);

/// Tolerated bias: terms of first order in 1/D, which the theory lacks. Measured updates resolve no such term
/// (docs/lab_notes/first_steps.md).
struct StatedError {
  double change = 0.0;  ///< relative, of second moments, losses and updates
  double cosine = 0.0;  ///< absolute
};
[[nodiscard]] StatedError stated_error(const StackSpec& spec);

}  // namespace periscope::first_steps
