#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/formats/config.h"
#include "experiments/studies/formats/deviation.h"
#include "sim/measure/running_moments.h"
#include "theory/certify/certificate.h"
#include "theory/predict/predict.h"

/// Claim C5: what a number format does to a stack, by placement. Does the law of the stream's variance survive, what
/// drifts from a run in f64, what overflows first, and whom do massive features hurt?
namespace periscope::formats {

/// The variants of the input: as configured and, if their factor is not 1, with massive features.
inline constexpr std::array<std::string_view, 2> variant_names{"plain", "massive"};
[[nodiscard]] inline std::size_t variants_of(const FormatsConfig& config) { return config.massive == 1.0 ? 1 : 2; }

/// One seed of a stack: for every variant of the input a pass in f64, and one in every format.
using SeedReading = std::vector<std::vector<PassReading>>;

inline auto parts(FirstOverflow& o) { return std::tie(o.found, o.sublayer, o.signal); }
inline auto parts(PassReading& p) { return std::tie(p.numbers, p.predicted, p.forward, p.backward); }

/// Runs seed `seed` of `spec`: all passes have the same weights, input and labels. With run.backward gradients too.
SeedReading read_seed(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                      const StackSpec& spec, std::uint64_t seed);

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

struct FormatsResult {
  std::vector<FormatsStack> stacks;
};

/// Runs every stack of `config` in f64 and in every format, with the same weights, inputs and labels, seed by seed.
FormatsResult run(const FormatsConfig& config, stacks::Progress& progress);

/// Adds the next seed to a stack's averages.
void add(FormatsStack& stack, const SeedReading& reading);

/// Judges every stack in every format, all together: its law against theory at the stack's width (`law`), and against
/// the same seeds in f64 (`drift`), where the fluctuation of seeds drops out; and what massive features cost. The law
/// may be off by what one rounding of the stream may do.
void judge_formats(FormatsResult& result, const config::AgreementOptions& options);

/// Says what a massive feature does: "hurts", "helps", "no difference seen", or "" where it was not judged.
std::string massive_words(const judge::Test& judged);

/// True if theory disagrees with the run in f64, or a run overflowed whose certificate says that it cannot: what a
/// format does to the law is an answer, no failure.
bool check_failed(const FormatsResult& result);

std::string table(const FormatsResult& result, const FormatsConfig& config);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const FormatsResult& result);

}  // namespace periscope::formats
