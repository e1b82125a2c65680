#pragma once

#include <algorithm>
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

/// One null hypothesis: random models that share some weight sizes with the model (size_nulls), run on its tokens.
struct NullReading {
  theory::Prediction predicted = {};  ///< no profile if the null is not predicted or is unsupported
  stacks::NullDraws drawn = {};       ///< results of random models of the same width
};

struct ProbeResult {
  std::string model;   ///< name of the model
  std::string family;  ///< family of the checkpoint, or ""
  StackSpec at_init;   ///< the model with random weights, for the theory at initialisation
  DType dtype = DType::f64;
  stacks::TokenInput input;
  ModelReading measured = {};
  std::optional<Emission> not_finite = {};                        ///< the first signal that is not finite
  config::AgreementOptions agreement;                             ///< options of the finite-width terms (T19)
  theory::Prediction initial = {};                                ///< theory at initialisation
  std::array<NullReading, stacks::size_nulls.size()> nulls = {};  ///< in the order of size_nulls
  std::vector<std::string> notes = {};
  std::vector<std::string> ignored_keys = {};  ///< keys of config.json that were ignored
  config::Resolved resolved = {};              ///< configuration, hashes of the checkpoint's files, ids, labels
};

/// Returns a result without measurements; every prediction is unsupported with the reason `why_no_theory`.
[[nodiscard]] ProbeResult result_of(const Checkpoint& checkpoint, std::string model, const config::Config& config,
                                    stacks::TokenInput input, int tokens, const std::string& why_no_theory);

/// Returns a random stack of the same shape: gains 1, biases 0, matrices drawn by `config.base.init`. Embedding tables
/// have input.second_moment if it is set, else the second moment that `config.base.init` gives them.
[[nodiscard]] StackSpec initial_stack(const ModelSpec& model, const config::Config& config, int tokens);

/// Predicts a stack on the tokens of `input` (T2–T11). Throws Stopped.
[[nodiscard]] theory::Prediction predict_initial(const StackSpec& spec, const stacks::TokenInput& input,
                                                 const config::Config& config, bool backward,
                                                 stacks::Progress& progress);

/// Excess of the measured log q (q: second moment of the stream) over that of a null, by depth. NaN where unknown.
struct NullExcess {
  std::size_t draws;          ///< number of random models drawn
  std::vector<double> value;  ///< log(q / q_null), with q_null predicted, or else the geometric mean of the draws
  std::vector<double> error;  ///< root mean square of `value` over random models of the null; NaN without draws
};

[[nodiscard]] NullExcess null_excess(const ProbeResult& result, std::size_t null);

/// Splits log(q measured / q at initialisation) at every depth into three parts (T29): sizes of matrices and gains,
/// sizes of rows and columns inside matrices, and the alignment of the weights with each other and with the tokens.
struct GrowthSplit {
  std::vector<double> from_scales;        ///< log(q at the matrices' root mean squares / q at initialisation)
  std::vector<double> from_sizes_inside;  ///< log(q at rank-one profiles / q at the root mean squares)
  NullExcess from_alignment;              ///< excess over the null of rank-one profiles
};

/// Returns nullopt if one of the three predictions has no profile.
[[nodiscard]] std::optional<GrowthSplit> growth_split(const ProbeResult& result);

/// Threshold of the largest |attention logit| above which QK-clip rescales a head, in Kimi K2 (arXiv 2507.20534).
inline constexpr double qk_clip_threshold = 100.0;
/// Factor of the logits of a head whose largest |logit| is `largest`; NaN for NaN.
[[nodiscard]] inline double qk_clip_factor(double largest) {
  return largest <= qk_clip_threshold ? 1.0 : qk_clip_threshold / largest;
}

/// Returns whether a sublayer violates the growth identity (T15) beyond rounding.
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

/// Returns the name of the first value that is not finite ("logits", "x_out of sublayer 3", "gradient of q of sublayer
/// 2", "loss"), or "" if all are finite.
[[nodiscard]] std::string not_finite(const ProbeResult& result);

[[nodiscard]] std::string table(const ProbeResult& result);
[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const ProbeResult& result);

/// Configuration of `probe`. Reads the sections init, run, theory and agreement, and input.second_moment.
struct ProbeConfig : study::CheckpointConfig {
  std::string dump;  ///< folder for activations and gradients; "": none
  bool backward = false;
  bool no_theory = false;
  bool with_theory = true;  ///< compute the theory at initialisation and at the weights' sizes, and the nulls
  bool fail_on_divergence = false;
  int top = 10;    ///< number of largest stream entries to report per depth
  int draws = 16;  ///< number of random models per null, for the errors of NullExcess
};

/// Throws InputError for an invalid checkpoint or invalid tokens, ConfigError for a backward pass without labels.
ProbeResult run(const ProbeConfig& config, stacks::Progress& progress);

}  // namespace periscope::probe
