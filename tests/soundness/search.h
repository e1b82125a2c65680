#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "theory/certify/certificate.h"

/// The attack on certificates (T24): random and adversarial checkpoints are certified and run in the arithmetic that
/// the certificate is for, emulated. No run may exceed a bound.
namespace periscope::soundness {

struct SoundnessConfig {
  std::uint64_t seed = 0;
  std::uint32_t first = 0;  ///< index of the first checkpoint
  std::uint32_t checkpoints = 1000;
  std::vector<RunArithmetic> arithmetics;  ///< checkpoint i is certified for number i mod their count
  double scale = 1.0;                      ///< on every bound; below 1 violations must be found
};

inline constexpr std::size_t class_count = theory::signal_class_names.size();

/// The certificate and the runs of one checkpoint.
struct SpecimenResult {
  bool stream_certified = false;
  bool all_certified = false;
  std::size_t claims = 0;  ///< bounds that runs were compared with
  int runs = 0;
  std::array<double, class_count> tightness{};  ///< largest reached over largest bound of a class; NaN if none
  double excess = 0.0;                          ///< the largest reached over its bound, of bounds that were exceeded
  std::string violation;                        ///< the run that exceeded it: checkpoint, bound, arithmetic, input

  [[nodiscard]] bool violated() const { return !violation.empty(); }
};

/// Builds, certifies and runs checkpoint `index`; a function of its arguments alone.
SpecimenResult examine(const SoundnessConfig& config, std::uint32_t index);

/// Examines all checkpoints, on all threads.
std::vector<SpecimenResult> run(const SoundnessConfig& config);

/// Tables per arithmetic what was certified, run and violated, and how close runs came to bounds; then violations.
std::string report(const SoundnessConfig& config, const std::vector<SpecimenResult>& results);

}  // namespace periscope::soundness
