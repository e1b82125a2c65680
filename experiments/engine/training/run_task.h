#pragma once

#include <functional>
#include <string>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/training/task.h"
#include "sim/base/first_exception.h"

namespace periscope::training {

/// Measures a stack during training, with one forward and backward pass over fixed held-out windows per record.
class Recorder {
 public:
  /// The backend must outlive this object.
  Recorder(const Backend& ops, StackSpec spec, const TrainSpec& train, const Corpus& corpus);

  /// Returns the values of one record, by column name:
  ///   validation_loss [1];
  ///   S.SITE [2L or 2L + 1]: statistic S of every signal that Probe and GradientProbe measure;
  ///   S.weight.W [L]: statistic S of every matrix q … down; root_mean_square.weight.W [L]: RMS of its entries;
  ///   growth_stream, growth_branch, growth_cross, growth_sum, growth_residual [2L]: terms of growth (T15);
  ///   gain_mean.N, gain_rms.N [2L]: mean and RMS of the gains of norms A, B, C; NaN if there is no such norm;
  ///   largest [2L]: largest |x| of any signal of a sublayer; top_magnitudes [100], top_depths [100]: the largest
  ///   entries of the stream and their depths; angular_distance [(2L + 1)²]; attention_entropy [L].
  [[nodiscard]] RecordedValues record(const ResidentWeights& weights) const;

 private:
  const Backend& ops_;
  StackSpec spec_;
  Windows windows_;
};

/// How training states are saved and restored.
struct SavedStates {
  std::string folder;    ///< folder of state files; "" to save nothing
  std::string identity;  ///< dependencies shared by all states: corpus, device and program
  /// Called with the weights to add values: `at_record` to every record, `at_end` to the last one of a complete run.
  std::function<void(const TrainingTask&, const ResidentWeights&, RecordedValues&)> at_record = {}, at_end = {};
  bool discards_weights = false;  ///< drop the parameters of a finished run from its state and its result
};

/// Returns the settings that determine a task's result. Corpus, device and program are part of SavedStates::identity.
[[nodiscard]] std::string identity_of(const TrainingTask& task);

/// Trains one stack, from random weights or from its saved state. The run ends early if the loss or gradient is not
/// finite or if Progress::recorded returns false. The state is saved at the end and every ten seconds, less often if
/// saving would take more than 2 % of the time. The result depends only on the task. Each step is a task of `progress`.
/// Throws Stopped, after saving the state, if a stop was requested or `others` has failed.
[[nodiscard]] TrainingResult run_task(const Backend& ops, const TrainingTask& task, const Corpus& corpus,
                                      const SavedStates& states, stacks::Progress& progress,
                                      const FirstException& others = FirstException());

}  // namespace periscope::training
