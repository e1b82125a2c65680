#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/train/trainer.h"

namespace periscope::training {

/// One run: a stack, how it is trained, a seed.
struct TrainingTask {
  StackSpec spec;
  TrainSpec train;
  std::uint64_t seed = 0;
  DType dtype = DType::f32;
  std::string name;  ///< of its files, as "peri-seed0"
};

/// The numbers recorded after a step, by the name of the column that they go to (record.h).
using RecordedValues = std::map<std::string, std::vector<double>>;

/// The numbers of a run so far.
struct TrainingHistory {
  // One number per step, up to the first that is not finite.
  std::vector<double> loss;               ///< [nat]
  std::vector<double> grad_norm;          ///< before clipping [nat]
  std::vector<double> last_layer_norm;    ///< of the last layer's gradients, likewise
  std::map<int, RecordedValues> records;  ///< by step

  void add(const StepOutcome& outcome);
  /// Returns true if the last step's loss and gradient norm are finite, or if there was no step yet.
  [[nodiscard]] bool is_finite() const;
};

/// The first step whose loss or gradient is not finite, or else the first step (2 or later) after which the loss stays
/// above that of step 1, if there are at least 20 such steps and the last 20 are above it by 5 % on average, or if the
/// last loss is ten times as large. Nothing for any other run.
[[nodiscard]] std::optional<int> divergence_step(const TrainingHistory& history);

/// Mean loss of the last tenth of `steps`; NaN if the run ended before [nat].
[[nodiscard]] double mean_of_last_tenth(const TrainingHistory& history, int steps);

/// A run that is over.
struct TrainingResult {
  TrainingTask task;
  TrainingHistory history;
  ResidentWeights::Parameters parameters;  ///< at its end
};

}  // namespace periscope::training
