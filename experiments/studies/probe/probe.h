#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/size_nulls.h"
#include "experiments/engine/run/token_input.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "sim/measure/model_reading.h"
#include "sim/measure/signal_peaks.h"
#include "theory/predict/predict.h"

namespace periscope::probe {

/// The prediction and the draws of random models that have some of a model's sizes (size_nulls), on its tokens.
struct NullReading {
  theory::Prediction predicted = {};  ///< theory; without profile for the null that has none, or with a unsupported
  stacks::NullDraws drawn = {};       ///< models of the model's own width
};

struct ProbeResult {
  std::string model;   ///< name
  std::string family;  ///< "" without a checkpoint
  StackSpec at_init;   ///< the model with random weights, for the theory at initialisation
  DType dtype = DType::f64;
  stacks::TokenInput input;
  ModelReading measured = {};
  std::optional<Emission> not_finite = {};                        ///< the first signal that is not finite
  config::AgreementOptions agreement;                             ///< finite-width terms (T19)
  theory::Prediction initial = {};                                ///< theory at initialisation, or a unsupported
  std::array<NullReading, stacks::size_nulls.size()> nulls = {};  ///< in size_nulls' order
  std::vector<std::string> notes = {};
  std::vector<std::string> ignored_keys = {};  ///< of the checkpoint's config.json
  config::Resolved resolved = {};              ///< the configuration, hashes of the checkpoint's files, ids, labels
};

/// Returns the result of a checkpoint without measurements and predictions, with `why_no_theory` as every unsupported.
[[nodiscard]] ProbeResult result_of(const Checkpoint& checkpoint, std::string model, const config::Config& config,
                                    stacks::TokenInput input, int tokens, const std::string& why_no_theory);

/// Returns the random stack of the same shape: gains 1, biases 0, matrices by `config.base.init`, tables with the
/// second moment of the configuration, else that of an unembedding.
[[nodiscard]] StackSpec initial_stack(const ModelSpec& model, const config::Config& config, int tokens);

/// Predicts a stack on the tokens of `input` (T2–T11). Throws Stopped.
[[nodiscard]] theory::Prediction predict_initial(const StackSpec& spec, const stacks::TokenInput& input,
                                                 const config::Config& config, bool backward,
                                                 stacks::Progress& progress);

/// The excess of the measured log q over a null's, q being the stream's second moment, at every depth. NaN where
/// theory has no number.
struct LeftOver {
  std::size_t draws;          ///< random models of the null
  std::vector<double> value;  ///< log(q / q of the null): theory's, or the draws' geometric mean where it has none
  std::vector<double> error;  ///< root mean square of `value` over models of the null; NaN without draws
};

[[nodiscard]] LeftOver left_over(const ProbeResult& result, std::size_t null);

/// log(q measured / q at initialisation) in three parts (T29), at every depth: the sizes of whole matrices and the
/// gains, the sizes inside matrices, and the rest, which comes from the alignment of the weights with each other and
/// with the tokens.
struct GrowthSplit {
  std::vector<double> from_scales;        ///< log(q of random weights of these matrices' root mean squares / at init)
  std::vector<double> from_sizes_inside;  ///< log(q of random weights of these profiles of rank one / q of the former)
  LeftOver from_alignment;                ///< beyond these profiles
};

/// Returns nothing if one of the three predictions has no profile.
[[nodiscard]] std::optional<GrowthSplit> growth_split(const ProbeResult& result);

/// True if the growth identity T15 is violated beyond rounding in some sublayer.
[[nodiscard]] bool violates_growth_identity(const ModelReading& reading);

/// Records the first signal or gradient of a pass whose mean square is not finite.
class FiniteRecorder final : public SignalRecorder {
 public:
  explicit FiniteRecorder(const Backend& ops) : ops_(ops) {}
  void on_signal(const Emission& at, const Tensor& x) override;
  [[nodiscard]] const std::optional<Emission>& first() const { return first_; }

 private:
  const Backend& ops_;
  std::optional<Emission> first_;
};

/// Returns "logits", "x_out of sublayer 3", "gradient of q of sublayer 2", "loss", or "" if everything is finite.
[[nodiscard]] std::string not_finite(const ProbeResult& result);

[[nodiscard]] std::string table(const ProbeResult& result);
[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const ProbeResult& result);

/// A checkpoint on tokens. Of the configuration, init, run, theory and agreement count, and input.second_moment.
struct ProbeConfig : study::CheckpointConfig {
  std::string dump;  ///< folder for activations and gradients; "": none
  bool backward = false;
  bool no_theory = false;
  bool with_theory = true;  ///< theory at initialisation and at the weights' own sizes, and models of these
  bool fail_on_divergence = false;
  int top = 10;    ///< largest entries of the stream per depth
  int draws = 16;  ///< random models of each of size_nulls, for the errors of what is left over
};

/// Throws InputError for a bad checkpoint or bad tokens, ConfigError for gradients of a pass without labels.
ProbeResult run(const ProbeConfig& config, stacks::Progress& progress);

}  // namespace periscope::probe
