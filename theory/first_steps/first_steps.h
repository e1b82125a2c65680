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

/// Batches of one training run: token ids and labels of every step, in concatenated sequences of length input.tokens.
struct TrainingBatches {
  std::vector<std::vector<int>> inputs;  ///< [steps][batch·T]
  std::vector<std::vector<int>> labels;  ///< [steps][batch·T]
};

/// Optimizer of a prediction.
struct OptimizerLaw {
  bool adam = true;           ///< true: AdamW; false: SGD with momentum
  std::vector<double> rates;  ///< learning rate of every step
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.0;
  double clip = 0.0;  ///< limit on the global gradient norm; 0: no clipping
};

struct FirstStepsInput {
  std::vector<TrainingBatches> runs;  ///< one per seed; replicate c uses run c % runs.size()
  std::vector<int> ids;     ///< token ids of the concatenated held-out windows, on which signals are evaluated
  std::vector<int> labels;  ///< labels of the held-out windows
  OptimizerLaw optimizer;
};

/// A deliberate error in the first-steps theory (T28), used to test whether verdicts detect it.
enum class StepFault {
  none,
  no_noise,       ///< omit u, the part of an entry's update that is not linear in its gradients
  sign_constant,  ///< use 1 instead of √(2/π), the mean of |z| for a normal z
  one_gate,       ///< treat the input of W_down as Gaussian, without a separate gate for every hidden channel
  no_token_mean,  ///< omit the part of the input kernel that all tokens share
};
inline constexpr std::array<std::string_view, 5> step_fault_names{"none", "no-noise", "sign-constant", "one-gate",
                                                                  "no-token-mean"};
static_assert(are_names_of<StepFault>(step_fault_names));
[[nodiscard]] std::string_view meaning_of(StepFault fault);

struct FirstStepsOptions {
  int neurons = 512;   ///< maximum number of sampled rows of a matrix; all channels of the stream are sampled
  int replicates = 4;  ///< independent replicates; their spread gives the standard errors
  std::uint64_t seed = 0;
  StepFault fault = StepFault::none;
  OnProgress on_progress = {};
};

/// Signals on the held-out windows after a step: predicted means over replicates, or measured means over seeds.
struct StepReading {
  Curve second_moment = {};             ///< second moment of the stream [2L+1]
  Curve coherent = {};                  ///< second moment of the stream's part along the gradients [2L+1]
  Curve branch_cosine = {};             ///< ⟨x_in, B_out⟩/(|x_in||B_out|), from means over tokens and features [2L]
  Curve branch_second_moment = {};      ///< second moment of B_out [2L]
  Curve loss = {};                      ///< mean loss in nats [1]
  std::map<Weight, Curve> update = {};  ///< mean square of an entry of ΔW·h [L]
  /// Smallest correlation, over sublayers, of a module's input with its input before training. Near 1, gradients keep
  /// their signs.
  double input_correlation = 1.0;
  int least_correlated = 0;  ///< sublayer of `input_correlation`
  Curve change = {};         ///< change of second_moment since the start of training [2L+1]
  Curve loss_change = {};    ///< change of loss since the start of training, in nats [1]
  /// Estimated errors in addition to standard errors. `neglected`: omitted second-order terms, relative to a predicted
  /// change. `gain_drift`: relative error of second moments, because norm gains keep their initial values: twice the
  /// sum of the learning rates so far, or 0 if no norm follows a module or the embedding.
  double neglected = 0.0;
  double gain_drift = 0.0;
};

/// Largest StepReading::neglected for which the theory is considered valid. With c = 1 − input_correlation, `neglected`
/// is 2c², because inputs and gradients change equally and a second moment is quadratic. At the first step, whose
/// gradients have not changed, it is c², about the error of updates in late layers (docs/lab_notes/first_steps.md).
inline constexpr double max_neglected = 0.05;

/// Prediction of the first steps of training (T28).
struct FirstSteps {
  std::string unsupported;         ///< why the stack is unsupported; empty if it is supported
  std::vector<StepReading> steps;  ///< step 0 (before training) and one entry per optimizer step
  /// Last step up to which `neglected` is at most `max_neglected` and second moments and loss are finite.
  int holds_until = 0;
  std::string stopped_by;  ///< why the theory is invalid after that step; "" if it holds to the end
};

/// Returns why first steps of a stack are unsupported, or "".
std::string first_steps_unsupported(const StackSpec& spec);

/// Predicts the first steps. The result does not depend on the number of threads.
FirstSteps predict_first_steps(const StackSpec& spec, const FirstStepsInput& input, const FirstStepsOptions& options);

/// Sizes of a prediction for its memory estimate; double, so that products do not overflow.
struct FirstStepsSizes {
  double steps = 1.0;
  double batch = 1.0;     ///< tokens per step
  double held_out = 1.0;  ///< held-out tokens
};

/// Memory estimate of a prediction, in bytes.
struct FirstStepsBytes {
  double kernels = 0.0;  ///< token kernels
  double samples = 0.0;  ///< signals of the sampled channels, and entries of matrices
  double classes = 0.0;  ///< logits and unembedding
};
FirstStepsBytes first_steps_bytes(const StackSpec& spec, const FirstStepsSizes& sizes,
                                  const FirstStepsOptions& options);

}  // namespace periscope::theory
