#pragma once

#include <string>
#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/training/train.h"
#include "experiments/studies/first_steps/prediction.h"

namespace periscope::first_steps {

/// Measurement, prediction and verdict of one stack.
struct StackSteps {
  StackSpec spec;
  std::vector<theory::StepReading> measured;  ///< means over seeds at steps 0 … n; `coherent` is empty
  int seeds = 0;
  std::string unusable;  ///< reason why the measurement cannot be judged (a seed diverged or was stopped), or ""
  theory::FirstSteps prediction;
  ToleratedBias tolerated;
  judge::StackVerdict verdict = {};
};

struct FirstStepsResult {
  std::vector<StackSteps> stacks;
  std::optional<training::TrainingResult> dumped;  ///< the single run with its weights, for --dump
  bool ended_early = false;                        ///< a run was interrupted before its last step
};

/// Trains every stack with every seed, predicts every stack, and judges. `with_weights` requires a single run:
/// `dumped` then contains this run and its weights.
FirstStepsResult run(const FirstStepsConfig& config, const Corpus& corpus, const theory::FirstStepsInput& input,
                     const Backend& ops, training::SavedStates states, bool with_weights, stacks::Progress& progress);

/// Adds "update.W" [L] to a record for every matrix W of `weights`: the mean square of the entries of ΔW·h, ΔW = W −
/// W₀. The matrix's input h is from a forward pass over the held-out windows. NaN where a layer has no W.
void add_updates(const Backend& ops, const training::TrainingTask& task, const Corpus& corpus,
                 const ResidentWeights& weights, training::RecordedValues& values);

/// Returns the records averaged over a stack's runs. Sets `unusable` if a run diverged or was interrupted.
[[nodiscard]] std::vector<theory::StepReading> measured_steps(const std::vector<training::TrainingHistory>& runs,
                                                              const StackSpec& spec, int steps, std::string& unusable);

/// Judges all stacks. At step 0 the stream's second moment is compared (relative). At steps 1 … holds_until: the change
/// of the stream's second moment since step 0, at every depth; the cosine of branch and stream, where one branch is
/// added (T15); the change of the loss; the mean square of ΔW·h of every matrix with a prediction. Tolerates
/// ToleratedBias and rounding.
void judge_steps(std::vector<StackSteps>& stacks, const FirstStepsConfig& config);

/// Returns the scale of relative errors of the stream's change: the maximum over depth of |q_t − q_0| and of the
/// coherent part, both predicted. The change at a single depth can be near 0, where a norm fixes q or two parts cancel.
[[nodiscard]] double change_scale(const theory::FirstSteps& prediction, std::size_t step);

[[nodiscard]] bool any_disagrees(const FirstStepsResult& result);

[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const FirstStepsConfig& config, const FirstStepsResult& result);
[[nodiscard]] std::string table(const FirstStepsConfig& config, const FirstStepsResult& result);

}  // namespace periscope::first_steps
