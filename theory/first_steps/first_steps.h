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
#include "theory/predict/share_done.h"

namespace periscope::theory {

/// The batches of one training run: token ids and labels of every step, sequences of input.tokens one behind the other.
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

/// What a first-steps prediction is made from.
struct FirstStepsInput {
  std::vector<TrainingBatches> runs;  ///< of every seed; chains take them in turn
  std::vector<int> ids;               ///< of the held-out windows that signals are read on, one behind the other
  std::vector<int> labels;            ///< theirs
  OptimizerLaw optimizer;
};

/// A named mistake inside T28, planted to see whether a verdict notices it.
enum class StepFault {
  none,
  no_noise,       ///< what no line in an entry's gradients explains of its update left out
  sign_constant,  ///< 1 instead of √(2/π), the mean |z| of a normal number
  one_gate,       ///< W_down's input as one Gaussian kernel instead of one for every sampled gate
  no_token_mean,  ///< the part of the inputs' kernel that all tokens have in common left out
};
inline constexpr std::array<std::string_view, 5> step_fault_names{"none", "no-noise", "sign-constant", "one-gate",
                                                                  "no-token-mean"};
static_assert(are_names_of<StepFault>(step_fault_names));
[[nodiscard]] std::string_view meaning_of(StepFault fault);

struct FirstStepsOptions {
  int neurons = 512;  ///< drawn rows of a matrix inside a module, at most; the stream has all of its channels
  int chains = 4;     ///< independent ones, from whose spread standard errors come
  std::uint64_t seed = 0;
  StepFault fault = StepFault::none;
  OnShare on_share = {};
};

/// Predicted signals on the held-out windows after a step.
struct StepReading {
  Curve second_moment;             ///< of the stream [2L+1]
  Curve coherent;                  ///< its part that follows the gradients, E y² in x = χ + y [2L+1]
  Curve branch_cosine;             ///< ⟨x_in, B_out⟩/(|x_in||B_out|), from means over tokens and features [2L]
  Curve branch_second_moment;      ///< of B_out [2L]
  Curve loss;                      ///< [1] nat
  std::map<Weight, Curve> update;  ///< mean square of an entry of ΔW·h [L]
  /// The correlation of what a module reads with what the same token's channels were before training, where that is
  /// smallest: signs of gradients stay as long as it is near 1.
  double kept_share = 1.0;
  int turned_sublayer = 0;  ///< where
  Curve change;             ///< of second_moment since before training [2L+1]
  Curve loss_change;        ///< [1] nat
  /// What the prediction may miss beside its standard errors: relative to a change, what the theory leaves out;
  /// relative to a second moment, 2·Σ rates behind norms, as far as their gains can have gone, which it takes to stay.
  double left_out = 0.0;
  double gains = 0.0;
};

/// What the theory may leave out of a change of a second moment, an estimate. At later steps 2 (1 − kept_share)²:
/// (1 − kept_share)² is the size of a product of a change of what a module reads and a change of its gradients, which
/// are alike, and a second moment grows with the square of what follows the gradients. At the first step, whose
/// gradients have not changed, (1 − kept_share)²: about what updates of late layers lack
/// (docs/lab_notes/first_steps.md).
inline constexpr double most_left_out = 0.05;

/// The prediction T28 of the first steps of training.
struct FirstSteps {
  std::string refusal;             ///< why there is none; empty if there is one
  std::vector<StepReading> steps;  ///< 0 (before training) … as many as there are rates
  /// The last step at which what the theory leaves out, products of two changes since the beginning, is at most
  /// `most_left_out` of what it has, and every second moment and the loss are numbers.
  int holds_until = 0;
  std::string stopped_by;  ///< the term that ends it then; "" if nothing does
};

/// Why there is no prediction of a stack's first steps, or "".
std::string first_steps_refusal(const StackSpec& spec);

/// Predicts the first steps. The result does not depend on the number of threads.
FirstSteps predict_first_steps(const StackSpec& spec, const FirstStepsInput& input, const FirstStepsOptions& options);

/// How much there is to predict, in double, so that no product overflows: it is asked before anything is drawn.
struct FirstStepsSizes {
  double steps = 1.0;
  double batch = 1.0;     ///< tokens of a step
  double held_out = 1.0;  ///< tokens that signals are read on
};

/// Bytes that a prediction takes, about.
struct FirstStepsBytes {
  double kernels = 0.0;  ///< of pairs of tokens
  double samples = 0.0;  ///< of sampled channels
  double classes = 0.0;  ///< of the vocabulary: logits, and the unembedding of sampled channels
};
FirstStepsBytes first_steps_bytes(const StackSpec& spec, const FirstStepsSizes& sizes,
                                  const FirstStepsOptions& options);
/// Floating-point operations, about.
double first_steps_operations(const StackSpec& spec, const FirstStepsSizes& sizes, const FirstStepsOptions& options);

}  // namespace periscope::theory
