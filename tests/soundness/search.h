#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/emulated/emulation.h"
#include "tests/soundness/specimen.h"

/// The attack on certificates (T24): random and adversarial checkpoints are certified and run in the arithmetic that
/// the certificate is for, emulated. No run may pass a bound.
namespace periscope::soundness {

struct SoundnessConfig {
  std::uint64_t seed = 0;
  std::uint32_t first = 0;  ///< number of the first checkpoint
  std::uint32_t checkpoints = 1000;
  std::vector<RunArithmetic> arithmetics;  ///< checkpoint i is held against number i mod their count
  double scale = 1.0;                      ///< on every bound; below 1 violations must be found
};

/// A number of a run that passed its bound.
struct Breach {
  std::string what;
  double bound = 0.0;
  double reached = 0.0;
  Emulation emulation;
  std::string input;

  [[nodiscard]] double excess() const { return bound > 0.0 ? reached / bound : theory::infinity; }
};

inline constexpr std::size_t class_count = theory::signal_class_names.size();

/// The certificate and the runs of one checkpoint.
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

/// The distribution of a class's tightness over checkpoints.
struct Tightness {
  int checkpoints = 0;
  double median = 0.0;
  double largest = 0.0;
};

/// Counts over all checkpoints of one arithmetic.
struct ArithmeticSummary {
  RunArithmetic arithmetic;
  int checkpoints = 0, stream_certified = 0, all_certified = 0, violated = 0;
  std::int64_t runs = 0;
  std::array<Tightness, class_count> tightness{};
};

struct SoundnessResult {
  SoundnessConfig config;
  std::vector<ArithmeticSummary> summaries;
  std::vector<SpecimenResult> violations;  ///< at most ten, the smallest checkpoint first
  int checkpoints = 0, violated = 0;
  std::int64_t runs = 0;
};

/// Examines all checkpoints, on all threads; the result does not depend on their number. `finished` is called now and
/// then with the number of checkpoints that are done.
SoundnessResult run(const SoundnessConfig& config, const std::function<void(std::uint32_t)>& finished = {});

/// For people: per arithmetic what was certified, run and violated, how near runs came to bounds; violations; a
/// verdict.
std::string report(const SoundnessResult& result);

/// The violations as JSON: checkpoint, weights with their shapes, the worst run and the first five that passed a bound.
nlohmann::ordered_json violations_json(const SoundnessResult& result);

}  // namespace periscope::soundness
