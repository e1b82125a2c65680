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

/// Results of `train`.
struct TrainResult {
  std::vector<TrainingResult> tasks;        ///< every stack with every seed, stacks in the outer loop
  std::vector<theory::Prediction> initial;  ///< predictions for every stack before training
  std::optional<double> loss_floor;         ///< lowest attainable loss on the corpus, if known [nat]
};

/// Returns the input token ids of the held-out windows used for records.
[[nodiscard]] std::vector<std::vector<int>> recorded_ids(const Corpus& corpus, const StackSpec& spec,
                                                         const TrainSpec& train);

/// Predicts the stack with random weights on the windows of recorded_ids, with a tolerance of 2 %.
[[nodiscard]] theory::Prediction predict_before_training(const Corpus& corpus, const StackSpec& spec,
                                                         const TrainConfig& config, stacks::Progress& progress);

/// Returns one run of a stack per seed, named "NAME-seedSEED".
[[nodiscard]] std::vector<TrainingTask> tasks_by_seed(const StackSpec& spec, const TrainSpec& train,
                                                      const config::RunOptions& run, const std::string& name);
[[nodiscard]] std::vector<TrainingTask> tasks_of(const TrainConfig& config);

/// Returns the dependencies that all runs share, except settings: corpus, device and cache::numerics.
[[nodiscard]] std::string identity_of_runs(const TrainConfig& config, const config::Resolved& resolved);

/// Runs tasks concurrently, one per thread, as long as there are enough for all threads, and the remaining tasks one
/// after another on all threads. Calls `use` for every result, in order and one at a time. Throws Stopped.
void train_tasks(const Backend& ops, const std::vector<TrainingTask>& tasks, const Corpus& corpus,
                 const SavedStates& states, stacks::Progress& progress, const std::function<void(TrainingResult)>& use);

/// Returns the floating-point operations of forward and backward passes; a multiply-add counts as two.
[[nodiscard]] double training_operations(const std::vector<TrainingTask>& tasks);

/// Returns the memory estimate of training: weights, gradients, optimizer state and signals of a micro-batch for all
/// concurrent tasks, and the weights of `weights_kept` finished tasks.
[[nodiscard]] stacks::MemoryEstimate training_memory(const TrainConfig& config, double tasks, double weights_kept,
                                                     int threads);

}  // namespace periscope::training
