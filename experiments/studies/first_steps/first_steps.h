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
  std::vector<theory::StepReading> measured;  ///< means over seeds at steps 0 … n; without `coherent`
  int seeds = 0;
  std::string unusable;  ///< why the measurement cannot be judged: a seed diverged or was stopped; or ""
  theory::FirstSteps prediction;
  StatedError stated;  ///< of the prediction
  judge::StackVerdict verdict = {};
};

struct FirstStepsResult {
  std::vector<StackSteps> stacks;
  std::optional<training::TrainingResult> dumped;  ///< the only run, if its weights are wanted
  bool ended_early = false;                        ///< a run was stopped from outside before its last step
};

/// Trains every stack for every seed, predicts the same, and judges. With `with_weights` the result keeps
/// the only run.
FirstStepsResult run(const FirstStepsConfig& config, const Corpus& corpus, const theory::FirstStepsInput& input,
                     const Backend& ops, training::SavedStates states, bool with_weights, stacks::Progress& progress);

/// Adds "update.W" [L] of every matrix W of `weights` to the numbers of a record, measured on its held-out windows in
/// one forward pass with these weights: with ΔW = W − W₀ the mean square of the entries of ΔW·h, where h is what the
/// matrix reads. Entries are those of all rows of h; NaN where a layer has no W.
void add_updates(const Backend& ops, const training::TrainingTask& task, const Corpus& corpus,
                 const ResidentWeights& weights, training::RecordedValues& values);

/// Returns the means over a stack's runs of their records. Sets `unusable` if a run lacks steps.
[[nodiscard]] std::vector<theory::StepReading> measured_steps(const std::vector<training::TrainingHistory>& runs,
                                                              const StackSpec& spec, int steps, std::string& unusable);

/// Judges all stacks. Compared are the stream's second moment at step 0 (relative), and, at the steps 1 … holds_until
/// of every stack: the change of the stream's second moment since step 0 at every depth, the cosine of every branch and
/// its stream, where one is added to the other (T15), the change of the loss, and the mean square of ΔW·h of W_v, W_o
/// and an MLP's matrices. Gradients of W_q and W_k can be below AdamW's ε, where a step depends on their size, which
/// varies between random weights. The theory's stated error and rounding are tolerated.
void judge_steps(std::vector<StackSteps>& stacks, const FirstStepsConfig& config);

/// Returns the scale of errors of the stream's change: the maximum over depth of |q_t − q_0| and the coherent part,
/// both predicted. At a depth where norms fix q, or where two parts of the change cancel, the change itself is no
/// scale.
[[nodiscard]] double change_scale(const theory::FirstSteps& prediction, std::size_t step);

[[nodiscard]] bool any_disagrees(const FirstStepsResult& result);

[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const FirstStepsConfig& config, const FirstStepsResult& result);
[[nodiscard]] std::string table(const FirstStepsConfig& config, const FirstStepsResult& result);

}  // namespace periscope::first_steps
