#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/core/dataset/schema.h"
#include "experiments/core/stacks/progress.h"
#include "experiments/core/study/study.h"
#include "experiments/studies/certify/soundness/specimen.h"
#include "sim/base/key.h"
#include "sim/emulated/emulation.h"

/// Are certificates sound? Random and adversarial checkpoints are certified and run in the arithmetic that the
/// certificate is for, emulated: no run may pass a bound (T24).
namespace periscope::soundness {

struct SoundnessConfig {
  std::uint64_t seed = 0;
  std::uint64_t checkpoints = 1000;
  std::vector<RunArithmetic> arithmetics;  ///< checkpoint i is held against number i mod their count
  double scale = 1.0;                      ///< on every bound; below 1 violations must be found
};

/// Something that a certificate says cannot happen.
struct Breach {
  std::string what;
  double bound = 0.0;
  double reached = 0.0;
  Emulation emulation;
  std::string input;

  [[nodiscard]] double excess() const { return bound > 0.0 ? reached / bound : theory::infinity; }
};

/// "mixed fp16, sums sequential, norms …".
std::string emulation_text(const Emulation& emulation);

inline constexpr std::size_t class_count = theory::signal_class_names.size();

/// What one checkpoint showed.
struct SpecimenResult {
  Specimen specimen;
  RunArithmetic arithmetic;
  Knob knob = Knob::tables;
  double factor = 1.0;  ///< of the knob
  bool stream_certified = false;
  bool all_certified = false;
  std::size_t claims = 0;  ///< bounds that were held against runs
  int runs = 0;
  std::array<double, class_count> tightness{};  ///< largest reached over largest bound of a class; NaN where none
  std::vector<Breach> breaches;                 ///< the worst of every run that had one

  [[nodiscard]] const Breach& worst() const;  ///< of the breaches, of which there has to be one
};

/// Builds, certifies and runs checkpoint `index`; a function of its arguments alone.
SpecimenResult examine(const SoundnessConfig& options, std::uint32_t index);

/// Half of a class's tightness is below the median.
struct Tightness {
  int checkpoints = 0;
  double median = 0.0;
  double largest = 0.0;
  std::uint32_t tightest = 0;  ///< index of the checkpoint that came nearest
};

/// What all checkpoints of one arithmetic showed.
struct ArithmeticSummary {
  RunArithmetic arithmetic;
  int checkpoints = 0, stream_certified = 0, all_certified = 0, violated = 0;
  std::int64_t runs = 0;
  std::array<Tightness, class_count> tightness{};
};

struct SoundnessResult {
  SoundnessConfig config;
  std::vector<ArithmeticSummary> summaries;
  std::vector<SpecimenResult> violations;  ///< the first few, the smallest checkpoint first
  int checkpoints = 0, violated = 0;
  std::int64_t runs = 0;
  bool stopped_early = false;  ///< nothing else is filled in
};

extern const Section<SoundnessConfig> section;

/// Examines all checkpoints, on all threads; the result does not depend on their number.
SoundnessResult run(const SoundnessConfig& config, stacks::Progress& progress);
/// The same of one checkpoint.
SoundnessResult run(const SoundnessConfig& config, std::uint32_t only, stacks::Progress& progress);

/// For people: per arithmetic what was certified, run and violated, how near runs came to bounds; violations; a
/// verdict.
std::string table(const SoundnessResult& result);

/// The same as a dataset, with the violations, their weights and their breaches.
const dataset::Schema& schema();
dataset::Dataset dataset_of(const SoundnessResult& result);

/// The command.
study::Study study();

}  // namespace periscope::soundness
