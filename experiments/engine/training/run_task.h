#pragma once

#include <functional>
#include <string>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/training/task.h"
#include "sim/base/first_exception.h"

namespace periscope::training {

/// Reads the recorded numbers off a stack while it trains: one forward and backward pass over the same held-out windows
/// every time.
class Recorder {
 public:
  /// The backend outlives this.
  Recorder(const Backend& ops, StackSpec spec, const TrainSpec& train, const Corpus& corpus);

  /// By the names of columns:
  ///   validation_loss [1];
  ///   S.SITE [2L or 2L + 1]: every statistic of every signal of the stream that Probe and GradientProbe read;
  ///   S.weight.W [L]: of every matrix q … down; root_mean_square.weight.W [L]: of its entries;
  ///   growth_stream, growth_branch, growth_cross, growth_sum, growth_residual [2L]: T15;
  ///   gain_mean.N, gain_rms.N [2L]: of the norms A, B, C; NaN where there is none;
  ///   largest [2L]: the largest |x| of any signal of a sublayer; top_magnitudes [100], top_depths [100]: the largest
  ///   entries of the stream at all depths; angular_distance [(2L + 1)²]; attention_entropy [L].
  [[nodiscard]] RecordedValues record(const ResidentWeights& weights) const;

 private:
  const Backend& ops_;
  StackSpec spec_;
  Windows windows_;
};

/// Where runs are saved, and what becomes of their weights.
struct SavedStates {
  std::string folder;    ///< of the states of runs; "" for none
  std::string identity;  ///< what all states depend on besides their run
  /// Adds to every record, and to the last one of a run that was not ended early, further numbers read off the weights.
  std::function<void(const TrainingTask&, const ResidentWeights&, RecordedValues&)> at_record = {}, at_end = {};
  bool discards_weights = false;  ///< the state of a run that is over, and its result, have no parameters
};

/// Trains one stack to the end, from its random weights or from its saved state; a loss or gradient that is not finite
/// ends it, and so does Progress::recorded. The state is written every ten seconds, or less often where that would take
/// more than 2 % of the time, and at the end. Every number depends on the task alone. Each step is a task of
/// `progress`. Throws Stopped, after writing the state, when it is asked to stop or one of the `others` has failed.
[[nodiscard]] TrainingResult run_task(const Backend& ops, const TrainingTask& task, const Corpus& corpus,
                                      const SavedStates& states, stacks::Progress& progress,
                                      const FirstException& others = FirstException());

}  // namespace periscope::training
