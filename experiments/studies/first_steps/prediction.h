#pragma once

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/first_steps/config.h"
#include "sim/train/corpus.h"

namespace periscope::first_steps {

/// Returns the optimizer of [train] as the theory needs it.
[[nodiscard]] theory::OptimizerLaw optimizer_of(const TrainSpec& train);

/// Returns the inputs of the prediction: the batches of the seeds (each chain uses those of one), the windows of the
/// records, the optimizer.
[[nodiscard]] theory::FirstStepsInput prediction_input(const FirstStepsConfig& config, const Corpus& corpus);

/// Predicts the stack `overridden`, unless it is cached. One task of progress, named "`label`: theory".
[[nodiscard]] theory::FirstSteps predict(const FirstStepsConfig& config, const StackSpec& overridden,
                                         const theory::FirstStepsInput& input, const std::string& label,
                                         stacks::Progress& progress);

/// Throws ConfigError if --theory-set overrides the specification, or the theory carries a planted fault, and none of
/// the numbers that a verdict compares changes by it in any stack. Compares predictions of two chains of few neurons
/// over the first steps.
void require_effective_override(const FirstStepsConfig& config, const theory::FirstStepsInput& input);

/// Returns the memory estimate of the batches and of one prediction after the other.
[[nodiscard]] stacks::MemoryEstimate prediction_memory(const FirstStepsConfig& config);

/// Tolerated bias: terms of first order in 1/D, which the theory lacks. Measured updates resolve no such term
/// (docs/lab_notes/first_steps.md).
struct StatedError {
  double change = 0.0;  ///< relative, of second moments, losses and updates
  double cosine = 0.0;  ///< absolute
};
[[nodiscard]] StatedError stated_error(const StackSpec& spec);

}  // namespace periscope::first_steps
