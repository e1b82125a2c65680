#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/config.h"
#include "experiments/studies/formats/deviation.h"
#include "experiments/studies/formats/format_pass.h"
#include "sim/base/enumerators.h"
#include "sim/measure/running_moments.h"
#include "theory/certify/certificate.h"
#include "theory/predict/predict.h"

/// Claim C5: what a number format does to a stack, by placement. Does the law of the stream's variance survive, what
/// drifts from a run in f64, what overflows first, and whom do massive features hurt?
namespace periscope::formats {

/// The words of flags: false and true.
inline constexpr std::array<std::string_view, 2> accumulate_names{"f32", "format"};
inline constexpr std::array<std::string_view, 2> rounding_names{"nearest", "stochastic"};
inline constexpr std::array<std::string_view, 2> overflow_names{"infinity", "saturate"};

/// [formats]: in which formats a pass is run, and what of it is held in them.
struct FormatsConfig : config::Config {
  std::vector<std::string> format{"fp32", "bf16", "fp16", "fp8_e5m2", "fp8_e4m3", "int8", "int4"};
  std::vector<std::string> covers{};  ///< parts; empty: all, of formats of 8 bits or fewer inputs and weights
  std::string rest = "bf16";          ///< the format of the other parts
  ScaleOver scale = ScaleOver::row;
  bool accumulates_in_format = false;  ///< sums of products with weight matrices, else in f32
  bool stochastic = false;
  bool saturates = false;    ///< numbers beyond the largest of a format
  double loss_scale = 1.0;   ///< factor of the loss's gradient, which is taken off again where gradients are compared
  double massive = 1.0;      ///< factor of the first features of the input in runs of their own; 1: no such runs
  int massive_features = 1;  ///< how many
  bool certificates = true;

  /// The configuration of what theory predicts, whose law is one of the forward pass: noise follows from measured
  /// gradients (T27).
  [[nodiscard]] config::Config without_gradients() const;
};

extern const Section<FormatsConfig> section;

/// The formats of the list. Throws ConfigError for an unknown one, for one that is there twice, for a format of `rest`
/// that is no floating one of at least 16 bits, for whole numbers without a scale, for unknown parts, and for a device
/// or a dtype that was asked for: numbers of the formats are held in f32 on the CPU.
std::vector<TensorFormat> checked_formats(const FormatsConfig& config);

/// Says how a pass of seed `seed` holds its tensors in `format`.
Holding holding_for(const FormatsConfig& config, const TensorFormat& format, std::uint64_t seed);

/// The variants of the input: as configured and, if their factor is not 1, with massive features.
inline constexpr std::array<std::string_view, 2> variant_names{"plain", "massive"};

/// One seed of a stack: for every variant of the input a pass in f64, and one in every format.
using SeedReading = std::vector<std::vector<PassReading>>;

inline auto parts(FirstOverflow& o) { return std::tie(o.found, o.sublayer, o.signal); }
inline auto parts(PassReading& p) { return std::tie(p.numbers, p.predicted, p.forward, p.backward); }

/// Runs seed `seed` of `spec`: all passes have the same weights, input and labels. With run.backward gradients too.
SeedReading read_seed(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                      const StackSpec& spec, std::uint64_t seed);

/// Predicts the SQNR of the stream at every depth in dB (T27) of a pass that holds its tensors so, from `exact`, a pass
/// in f64 with gradients, and those of matrices, `weights` (GradientProbe). `drawn` is the stack's input in f64
/// [tokens, width] as the table or the generator gives it, `planted` with massive features, if any. v_i of a signal is
/// the mean square error of rounding its value in f64 (`square_errors`), v of a matrix T26's. A table's rows are
/// rounded as they are drawn: a factor, massive features and an embedding norm scale their errors together with them.
/// NaN where sums are not in f32, and where nothing is rounded but to fp32, whose roundings inside ops are left out.
/// Not for two streams.
std::vector<double> predicted_sqnr(const Backend& ops, const StackSpec& spec, const DeviationProbe& exact,
                                   const Profile& weights, const Holding& holding, const std::vector<double>& drawn,
                                   const std::vector<double>& planted);

/// The first overflow over all seeds, in the order of a pass.
struct Overflow {
  int seeds = 0;               ///< in which something overflowed
  FirstOverflow first;         ///< the one that is first in its pass
  bool of_first_seed = false;  ///< the run's first seed overflowed: the one that has certificates
};

/// One format with one kind of input, over all seeds; numbers as in PassReading.
struct Variant {
  BySite<RunningMoments> numbers;
  std::vector<RunningMoments> predicted;
  Overflow forward, backward;
};

/// T24 for the first seed's weights: whether anything that the run stores can overflow.
struct FormatCertificate {
  bool certified = false;
  theory::SignalBound first = {};  ///< that may overflow, unless certified
};

/// A stack in one format; the first one is f64.
struct FormatResult {
  std::string name;
  std::vector<Variant> variants;
  /// The most that one rounding of the stream does to the law's statistics, relative: which their tests tolerate.
  double stream_rounding = 0.0;
  std::vector<Profile> law_profiles;  ///< the stream's second moment and variance, with plain features, of every seed
  judge::StackVerdict law;            ///< these compared with theory at the stack's width
  judge::StackVerdict drift;          ///< these compared with the same seeds in f64
  std::optional<FormatCertificate> certificate;
  /// SQNR in dB with plain features less that with massive ones: of modules' outputs, mean over sublayers, and of the
  /// stream after the last.
  RunningMoments branch_cost, stream_cost;
  judge::Test massive;  ///< of branch_cost

  [[nodiscard]] bool is_f64() const { return name == fp64.name; }
};

struct FormatsStack {
  StackSpec spec;
  theory::Prediction prediction;
  std::vector<FormatResult> formats;
  int seeds = 0;
  double largest_input = 0.0;  ///< largest entry that entered the stack in f64, with massive features too
};

/// Runs every stack of `config` in f64 and in every format, with the same weights, inputs and labels, seed by seed.
std::vector<FormatsStack> run(const FormatsConfig& config, stacks::Progress& progress);

/// Adds the next seed to a stack's averages.
void add(FormatsStack& stack, const SeedReading& reading);

/// Judges every stack in every format, all together: its law against theory at the stack's width (`law`), and against
/// the same seeds in f64 (`drift`), where the fluctuation of seeds drops out; and what massive features cost. The law
/// may be off by what one rounding of the stream may do.
void judge_formats(std::vector<FormatsStack>& stacks, const config::AgreementOptions& options);

/// Says what a massive feature does: "hurts", "helps", "no difference seen", or "" where it was not judged.
std::string massive_words(const judge::Test& judged);

/// True if theory disagrees with the run in f64, or a run overflowed whose certificate says that it cannot: what a
/// format does to the law is an answer, no failure.
bool check_failed(const std::vector<FormatsStack>& stacks);

std::string table(const std::vector<FormatsStack>& stacks, const FormatsConfig& config);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const std::vector<FormatsStack>& stacks);

}  // namespace periscope::formats
