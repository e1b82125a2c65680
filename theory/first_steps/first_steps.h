#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "theory/attention/prediction_progress.h"

namespace periscope::theory {

/// The batches of one training run: token ids and labels of every step, sequences of input.tokens one after
/// another.
struct TrainingBatches {
  std::vector<std::vector<int>> inputs;  ///< [steps][batch·T]
  std::vector<std::vector<int>> labels;  ///< [steps][batch·T]
};

/// An optimizer as theory sees it.
struct OptimizerLaw {
  bool adam = true;           ///< AdamW, else SGD with momentum
  std::vector<double> rates;  ///< of every step
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.0;
  double clip = 0.0;  ///< largest norm of all gradients together; 0: none
};

/// Input of a first-steps prediction.
struct FirstStepsInput {
  std::vector<TrainingBatches> runs;  ///< one for every seed; chain c uses run c modulo their number
  std::vector<int> ids;               ///< of the held-out windows that signals are read on, one after another
  std::vector<int> labels;            ///< of these windows
  OptimizerLaw optimizer;
};

/// A named mistake inside T28, planted to see whether a verdict notices it.
enum class StepFault {
  none,
  no_noise,       ///< without u, the part of an entry's update that is not linear in its gradients
  sign_constant,  ///< 1 instead of √(2/π), the mean |z| of a normal number
  one_gate,       ///< W_down's input as Gaussian, without a gate for every hidden channel
  no_token_mean,  ///< without the part of the inputs' kernel that all tokens have in common
};
inline constexpr std::array<std::string_view, 5> step_fault_names{"none", "no-noise", "sign-constant", "one-gate",
                                                                  "no-token-mean"};
static_assert(are_names_of<StepFault>(step_fault_names));
[[nodiscard]] std::string_view meaning_of(StepFault fault);

struct FirstStepsOptions {
  int neurons = 512;   ///< most drawn rows of a matrix inside a module; all channels of the stream are drawn
  int replicates = 4;  ///< independent replicates, from whose spread standard errors come
  std::uint64_t seed = 0;
  StepFault fault = StepFault::none;
  OnProgress on_progress = {};
};

/// Signals on the held-out windows after a step: predicted means over chains, or measured means over seeds.
struct StepReading {
  Curve second_moment = {};             ///< of the stream [2L+1]
  Curve coherent = {};                  ///< E y², y the part of the stream that follows the gradients [2L+1]
  Curve branch_cosine = {};             ///< ⟨x_in, B_out⟩/(|x_in||B_out|), from means over tokens and features [2L]
  Curve branch_second_moment = {};      ///< of B_out [2L]
  Curve loss = {};                      ///< [1] nat
  std::map<Weight, Curve> update = {};  ///< mean square of an entry of ΔW·h [L]
  /// Correlation of what a module reads with what it read of the same token before training: the smallest over
  /// sublayers. Near 1, signs of gradients have not changed.
  double kept_share = 1.0;
  int turned_sublayer = 0;  ///< the sublayer with the smallest correlation
  Curve change = {};        ///< of second_moment since before training [2L+1]
  Curve loss_change = {};   ///< [1] nat
  /// What the prediction may miss, not counting its standard errors. `left_out`: relative to a change, what the theory
  /// leaves out. `gains`: relative to a second moment, 2·Σ rates, as far as gains of norms can have moved; the theory
  /// leaves them at their initial value. 0 if no norm follows a module or the embedding.
  double left_out = 0.0;
  double gains = 0.0;
};

/// Largest StepReading::left_out for which the theory claims to hold. left_out is an estimate: (1 − kept_share)² at the
/// first step, whose gradients have not changed, about what updates of late layers lack; later 2 (1 − kept_share)²,
/// because inputs and gradients change alike and a second moment grows with the square (docs/lab_notes/first_steps.md).
inline constexpr double most_left_out = 0.05;

/// The prediction T28 of the first steps of training.
struct FirstSteps {
  std::string unsupported;         ///< why the stack is unsupported; empty if it is supported
  std::vector<StepReading> steps;  ///< step 0 (before training) and one after every rate
  /// Last step up to which `left_out` is at most `most_left_out` at every step, and no second moment or loss is NaN.
  int holds_until = 0;
  std::string stopped_by;  ///< reason why the theory stops after that step; "" if it holds to the end
};

/// Returns why first steps of a stack are unsupported, or "".
std::string first_steps_unsupported(const StackSpec& spec);

/// Predicts the first steps. The result does not depend on the number of threads.
FirstSteps predict_first_steps(const StackSpec& spec, const FirstStepsInput& input, const FirstStepsOptions& options);

/// Sizes of a prediction, in double so that no product overflows: costs are estimated before anything is drawn.
struct FirstStepsSizes {
  double steps = 1.0;
  double batch = 1.0;     ///< tokens of a step
  double held_out = 1.0;  ///< tokens that signals are read on
};

/// Memory estimate of a prediction, in bytes.
struct FirstStepsBytes {
  double kernels = 0.0;  ///< of pairs of tokens
  double samples = 0.0;  ///< of channels of the stream, hidden channels and entries of matrices
  double classes = 0.0;  ///< of the vocabulary: logits, and the unembedding
};
FirstStepsBytes first_steps_bytes(const StackSpec& spec, const FirstStepsSizes& sizes,
                                  const FirstStepsOptions& options);

}  // namespace periscope::theory
