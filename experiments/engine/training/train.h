#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/training/config.h"
#include "experiments/engine/training/run_task.h"
#include "theory/predict/predict.h"

namespace periscope::training {

/// The results of `train`: every placement with every seed, placements outermost.
struct TrainResult {
  std::vector<TrainingResult> tasks;
  std::vector<theory::Prediction> initial;  ///< of every stack before training
  std::optional<double> loss_floor;         ///< of the corpus, if it is known [nat]
};

/// The windows that every record reads, as sequences of inputs.
[[nodiscard]] std::vector<std::vector<int>> recorded_ids(const Corpus& corpus, const StackSpec& spec,
                                                         const TrainSpec& train);

/// Predicts the signals of the stack with random weights on these windows, to 2 % of a second moment.
[[nodiscard]] theory::Prediction predict_before_training(const Corpus& corpus, const StackSpec& spec,
                                                         const TrainConfig& config, stacks::Progress& progress);

/// One run of a stack for every seed, named "<word>-seed<seed>".
[[nodiscard]] std::vector<TrainingTask> tasks_by_seed(const StackSpec& spec, const TrainSpec& train,
                                                      const config::RunOptions& run, const std::string& word);
/// The runs of a configuration.
[[nodiscard]] std::vector<TrainingTask> tasks_of(const TrainConfig& config);

/// Returns what all runs depend on besides their settings: the corpus's bytes, the device, the program's numerics.
[[nodiscard]] std::string identity_of_runs(const TrainConfig& config, const config::Resolved& resolved);

/// Trains tasks concurrently, each on one thread, while there is one for every thread, and the others in turn on all
/// threads. Calls `use` with every trained task, in the order of the list, one at a time. Throws Stopped.
void train_tasks(const Backend& ops, const std::vector<TrainingTask>& tasks, const Corpus& corpus,
                 const SavedStates& states, stacks::Progress& progress, const std::function<void(TrainingResult)>& use);

/// Weights, gradients, the optimizer's state and the signals of a micro-batch, for the concurrent ones of `tasks`; and
/// the weights of `weights_kept` tasks that are done.
[[nodiscard]] stacks::MemoryEstimate training_memory(const TrainConfig& config, double tasks, double weights_kept,
                                                     int threads);

}  // namespace periscope::training
