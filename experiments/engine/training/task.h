#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/train/trainer.h"

namespace periscope::training {

/// One training run: a stack, training settings and a seed.
struct TrainingTask {
  StackSpec spec;
  TrainSpec train;
  std::uint64_t seed = 0;
  DType dtype = DType::f32;
  std::string name;  ///< base name of its files, such as "peri-seed0"
};

/// Values recorded after a step, by column name (Recorder::record).
using RecordedValues = std::map<std::string, std::vector<double>>;

/// Measured values of a training run.
struct TrainingHistory {
  // One value per step, up to the first step with a value that is not finite.
  std::vector<double> loss;               ///< [nat]
  std::vector<double> grad_norm;          ///< norm of all gradients, before clipping [nat]
  std::vector<double> last_layer_norm;    ///< norm of the last layer's gradients, before clipping [nat]
  std::map<int, RecordedValues> records;  ///< recorded values by step

  void add(const StepOutcome& outcome);
  /// Returns true before the first step, or if the last step's loss and gradient norm are finite.
  [[nodiscard]] bool is_finite() const;
};

/// Returns the step at which a run diverged, or nullopt. A run diverges at the first step whose loss or gradient is not
/// finite. Otherwise let s ≥ 2 be the first step such that no loss from s on is below the loss of step 1. The run
/// diverges at s in two cases: the last loss is more than ten times the loss of step 1; or at least 20 steps remain,
/// and the mean loss of the last 20 is more than 5 % above the loss of step 1.
[[nodiscard]] std::optional<int> divergence_step(const TrainingHistory& history);

/// Returns the mean loss of the last tenth of `steps` [nat]; NaN if the run ended early.
[[nodiscard]] double mean_of_last_tenth(const TrainingHistory& history, int steps);

struct TrainingResult {
  TrainingTask task;
  TrainingHistory history;
  ResidentWeights::Parameters parameters;  ///< final parameters
};

}  // namespace periscope::training
