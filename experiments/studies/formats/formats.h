#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "experiments/studies/formats/deviation.h"
#include "experiments/studies/formats/format_pass.h"
#include "sim/base/enumerators.h"
#include "sim/measure/running_moments.h"
#include "theory/certify/certificate.h"
#include "theory/predict/predict.h"

/// Claim C5: the effect of a number format on a stack, by placement. Does the variance law still hold, what drifts from
/// a run in f64, what overflows first, and which placements do massive features harm?
namespace periscope::formats {

/// Values of two-valued keys, for false and true.
inline constexpr std::array<std::string_view, 2> accumulate_names{"f32", "format"};
inline constexpr std::array<std::string_view, 2> rounding_names{"nearest", "stochastic"};
inline constexpr std::array<std::string_view, 2> overflow_names{"infinity", "saturate"};
inline constexpr std::array<std::string_view, 2> pass_names{"both", "backward"};

/// Section [formats]: the formats of the runs, and the tensors that they cover.
struct FormatsConfig : study::CheckpointConfig {
  std::vector<std::string> format{"fp32", "bf16", "fp16", "fp8_e5m2", "fp8_e4m3", "int8", "int4"};
  std::vector<std::string> covers{};  ///< parts; empty: all, or inputs and weights for formats of 8 bits or fewer
  std::string rest = "bf16";          ///< format of the other parts
  ScaleOver scale = ScaleOver::row;
  int block = 0;                       ///< entries that share a scale in blocks; 0: the format's default
  bool accumulates_in_format = false;  ///< sum products with weight matrices in the format, not in f32
  bool stochastic = false;
  bool backward_only = false;  ///< round only in the backward pass
  bool saturates = false;      ///< clamp to the format's largest number
  double loss_scale = 1.0;     ///< multiplies the loss's gradient; divided out before gradients are compared
  double massive = 1.0;        ///< multiplies the input's first features in separate runs; 1: no such runs
  int massive_features = 1;    ///< number of massive features
  bool certificates = true;
  bool backward = false;  ///< --backward

  /// Returns the prediction's configuration: no backward pass, because noise follows from measured gradients (T27).
  [[nodiscard]] config::Config without_gradients() const;
};

extern const Section<FormatsConfig> section;

/// Returns the listed formats. Throws ConfigError for an unknown or repeated format, for a `rest` that is not a
/// floating-point format of at least 16 bits, for integers without a scale, for unknown parts, and for run.device or
/// run.dtype: formats are emulated in f32 on the CPU.
std::vector<TensorFormat> checked_formats(const FormatsConfig& config);

/// Returns the formats of the tensors in a pass in `format`; `seed` determines stochastic rounding.
FormatChoice format_choice_for(const FormatsConfig& config, const TensorFormat& format, std::uint64_t seed);

/// The variants of the input: as configured and, if formats.massive is not 1, with massive features.
inline constexpr std::array<std::string_view, 2> variant_names{"plain", "massive"};

/// Readings of one seed: for every variant of the input, the pass in f64 and one in every format.
using SeedReading = std::vector<std::vector<PassReading>>;

inline auto parts(FirstOverflow& o) { return std::tie(o.found, o.sublayer, o.signal); }
inline auto parts(PassReading& p) {
  return std::tie(p.numbers, p.predicted, p.products, p.layer_gradients, p.forward, p.backward);
}

/// Runs one seed of `spec`, with gradients if run.backward. All passes have the same weights, input and labels.
SeedReading read_seed(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                      const StackSpec& spec, std::uint64_t seed);

/// Token ids, empty for Gaussian input, and labels, empty for a forward pass.
struct Tokens {
  std::vector<int> ids, labels;
};
/// Runs given weights (f64). `spec` has their standard deviations (stddev_of); `seed` determines Gaussian input and
/// stochastic rounding.
SeedReading read_passes(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                        const StackSpec& spec, const WeightSource& weights, const Tokens& tokens, std::uint64_t seed);

/// Rows of a table as read by the tokens, in f64 [tokens, width].
struct TableRows {
  std::vector<double> rows;
  double factor;  ///< multiplies the rows
  Signal signal;  ///< first signal that contains them: `embedding` or `input`
};
/// The input of a pass.
struct PassInput {
  std::vector<TableRows> tables;  ///< empty for Gaussian input
  double massive = 1.0;           ///< multiplies the first `massive_features` features of the sum of the tables
  int massive_features = 0;
};

/// Predicts the SQNR of the stream at every depth in dB (T27) for a pass with the formats `choice`. `exact` is the pass
/// in f64 with gradients, `weights` has the gradients of matrices (GradientProbe). v_i of a signal is the mean square
/// error of rounding its value in f64 (`square_errors`); T26 gives v of a matrix. Table rows are rounded when they are
/// read, before factors and massive features. NaN if sums are not in f32, or if all parts are fp32, as roundings inside
/// ops are not modelled. Requires one stream.
std::vector<double> predicted_sqnr(const Backend& ops, const StackSpec& spec, const DeviationProbe& exact,
                                   const Profile& weights, const FormatChoice& choice, const PassInput& input);

/// The first overflow over all seeds, in the order of a pass.
struct Overflow {
  int seeds = 0;               ///< number of seeds with an overflow
  FirstOverflow first;         ///< earliest in its pass
  bool of_first_seed = false;  ///< whether the first seed (whose weights have a certificate) overflowed
};

/// Results of one format with one variant of the input, over all seeds. PassReading describes `numbers`.
struct Variant {
  BySite<RunningMoments> numbers;
  std::vector<RunningMoments> predicted;
  ByProduct<RunningMoments> products;
  std::vector<RunningMoments> layer_gradients;
  Overflow forward, backward;
};

/// Certificate (T24) of the first seed's weights: whether a value that the run stores can overflow.
struct FormatCertificate {
  bool certified = false;
  theory::SignalBound first = {};  ///< first signal that may overflow, unless certified
};

/// The results of a stack in one format. The first format is f64.
struct FormatResult {
  std::string name;
  std::vector<Variant> variants;
  /// Largest relative effect of one rounding of the stream on the law's statistics; tolerated by their tests.
  double stream_rounding = 0.0;
  std::vector<Profile> law_profiles;  ///< the stream's second moment and variance, with plain features, of every seed
  judge::StackVerdict law;            ///< law_profiles compared with theory at the stack's width
  judge::StackVerdict drift;          ///< law_profiles compared with the same seeds in f64
  std::optional<FormatCertificate> certificate;
  /// SQNR in dB with plain features minus SQNR with massive ones. `branch_cost`: of module outputs, mean over
  /// sublayers. `stream_cost`: of the stream after the last sublayer.
  RunningMoments branch_cost, stream_cost;
  judge::Test massive;  ///< test of branch_cost

  [[nodiscard]] bool is_f64() const { return name == fp64.name; }
};

/// A random stack, averaged over seeds, or the given weights of a checkpoint.
struct FormatsStack {
  StackSpec spec;
  theory::Prediction prediction;
  std::vector<FormatResult> formats;
  int seeds = 0;
  double largest_input = 0.0;  ///< largest input entry in f64, including massive features
};

/// Runs every stack of `config` in f64 and in every format, with the same weights, inputs and labels, seed by seed.
std::vector<FormatsStack> run(const FormatsConfig& config, stacks::Progress& progress);

/// Returns the memory estimate of `seeds` seeds. One pass stores all signals and, with run.backward, their
/// gradients and the gradients of all matrices.
stacks::MemoryEstimate passes_memory(const StackSpec& spec, config::RunOptions run, int seeds, int threads);

/// Results of a checkpoint.
struct CheckpointResult {
  std::vector<FormatsStack> stacks;  ///< the checkpoint, and random weights with its root mean square of every matrix
  std::vector<std::string> notes, ignored_keys;
  config::Resolved resolved;
};
/// Runs a checkpoint and random weights of the same sizes on the same tokens, in f64 and in every format. Throws
/// InputError for an invalid checkpoint or invalid tokens, ConfigError for a backward pass without labels.
CheckpointResult run_checkpoint(const FormatsConfig& config, stacks::Progress& progress);

/// Computes the certificate (T24) of `weights` in every format that applies. `names` names entries in error messages.
void certify_formats(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                     const WeightSource& weights, const config::EntryNames& names, FormatsStack& stack,
                     const stacks::Progress& progress);

/// Returns a stack without results, with an entry for f64 and for every format.
FormatsStack empty_stack(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const StackSpec& spec);

/// Adds the next seed to a stack's averages.
void add(FormatsStack& stack, const SeedReading& reading);

/// Judges all stacks and formats together: the law against theory at the stack's width (`law`), the law against the
/// same seeds in f64 (`drift`, free of fluctuation over seeds), and the cost of massive features. Tolerates one
/// rounding of the stream.
void judge_formats(std::vector<FormatsStack>& stacks, const config::AgreementOptions& options);

/// Returns the effect of massive features: "hurts", "helps", "no difference seen", "not finite", or "" if not judged.
std::string massive_words(const judge::Test& judged);

/// Returns whether theory disagrees with the run in f64, or a certified run overflowed. A format that breaks the law is
/// a result, not a failure.
bool check_failed(const std::vector<FormatsStack>& stacks);

std::string table(const std::vector<FormatsStack>& stacks, const FormatsConfig& config);
std::string checkpoint_table(const CheckpointResult& result, const FormatsConfig& config);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const std::vector<FormatsStack>& stacks);

}  // namespace periscope::formats
