#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/formats/seed_reading.h"
#include "sim/measure/running_moments.h"
#include "theory/certify/certificate.h"
#include "theory/predict/predict.h"

/// Claim C5: what a number format does to a stack, by placement. Does the law of the stream's variance survive, what
/// drifts from a run in f64, what overflows first, and whom do massive features hurt?
namespace periscope::formats {

/// The first overflow over all seeds, in the order of a pass.
struct Overflow {
  int seeds = 0;               ///< in which something overflowed
  FirstOverflow first;         ///< the one that is first in its pass
  std::uint64_t seed = 0;      ///< of that one
  bool of_first_seed = false;  ///< the run's first seed overflowed: the one that has certificates
};

/// One format with one kind of input, over all seeds.
struct Variant {
  std::vector<RunningMoments> numbers;  ///< as PassReading::numbers
  /// Drift of the mean square and the variance: over their values in f64, minus 1, seed by seed [site, place].
  std::vector<RunningMoments> second_moment_drift, variance_drift;
  std::vector<RunningMoments> rounding;   ///< as PassReading::rounding
  std::vector<RunningMoments> predicted;  ///< as PassReading::predicted
  double largest_input = 0.0;             ///< over all seeds
  Overflow forward, backward;
};

/// By how many dB massive features lower the SQNR, seed by seed.
struct MassiveEffect {
  RunningMoments branch;  ///< of f_out, mean over sublayers
  RunningMoments stream;  ///< of the stream after the last sublayer
};

/// T24 for the first seed's weights: whether anything that the run stores can overflow.
struct FormatCertificate {
  bool certified = false;
  std::string signal;  ///< that may overflow first; "" if none
  int sublayer = 0;
  double bound = 0.0;
};

/// A stack in one format; the first one is f64.
struct FormatResult {
  std::string name;
  std::vector<Variant> variants;
  /// The most that one rounding of the stream does to the law's statistics, relative: which their tests tolerate.
  double stream_rounding = 0.0;
  judge::SeedCurves law_curves;  ///< the stream's second moment and variance, a row per seed
  judge::StackVerdict law;       ///< these compared with theory at the stack's width
  judge::StackVerdict drift;     ///< these compared with the same seeds in f64
  std::optional<FormatCertificate> certificate;
  MassiveEffect massive;

  [[nodiscard]] bool is_f64() const { return name == fp64.name; }
};

struct FormatsStack {
  StackSpec spec;
  std::vector<Site> sites;
  theory::Prediction prediction;
  std::vector<FormatResult> formats;
  int seeds = 0;

  /// Index of [site, measure, place].
  [[nodiscard]] std::size_t index(std::size_t site, Measure measure, std::size_t place) const {
    return (site * measure_names.size() + static_cast<std::size_t>(measure)) * places_of(spec.model) + place;
  }
  /// The position of a site that is there.
  [[nodiscard]] std::size_t position(const Site& site) const;
  /// A profile of the stream's second moment and variance as the plain variant has them.
  [[nodiscard]] Profile law_profile(const FormatResult& format) const;
  /// T18: about the largest |x_out| at every depth, from the predicted second moment.
  [[nodiscard]] std::vector<double> predicted_maxima() const;
  /// The largest of these and, of stacks with norms C, of the predicted entries of the sums before them.
  [[nodiscard]] double predicted_maximum() const;
};

struct FormatsResult {
  std::vector<FormatsStack> stacks;
  bool stopped_early = false;  ///< stacks are those that were finished, and not judged
};

/// Runs every stack of `config` in f64 and in every format, with the same weights, inputs and labels, seed by seed.
FormatsResult run(const FormatsConfig& config, stacks::Progress& progress);

/// Adds a seed to a stack's averages.
void add(FormatsStack& stack, const SeedReading& reading, std::uint64_t seed, bool first);

/// Judges the law of every stack in every format, all together: against theory at the stack's width (`law`), and
/// against the same seeds in f64 (`drift`), where the fluctuation of seeds drops out. Either may be off by what one
/// rounding of the stream may do.
void judge_laws(FormatsResult& result, const config::AgreementOptions& options);

/// Number of effects of massive features that are judged together: one per format of every stack, without f64.
std::size_t massive_tests(const FormatsResult& result);

/// Says what a massive feature does: "hurts", "helps", "no difference seen", or "" where it was not run.
/// Student's t of the paired differences at Šidák's level over all formats of all stacks.
std::string massive_words(const RunningMoments& effect, std::size_t tests, double familywise_error);

/// True if theory disagrees with the run in f64, or a run overflowed whose certificate says that it cannot: what a
/// format does to the law is an answer, no failure.
bool check_failed(const FormatsResult& result);

std::string table(const FormatsResult& result, const FormatsConfig& config);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const FormatsConfig& config, const FormatsResult& result);

}  // namespace periscope::formats
