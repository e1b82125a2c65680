#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "theory/certify/certificate.h"

/// Attack on certificates (T24): random and adversarial checkpoints are certified and run in the emulated arithmetic of
/// the certificate. No run may exceed a bound.
namespace periscope::soundness {

struct SoundnessConfig {
  std::uint64_t seed = 0;
  std::uint32_t first = 0;  ///< index of the first checkpoint
  std::uint32_t checkpoints = 1000;
  std::vector<RunArithmetic> arithmetics;  ///< checkpoint i uses entry i mod size
  double scale = 1.0;                      ///< multiplies every bound; values below 1 must give violations
};

inline constexpr std::size_t class_count = theory::signal_class_names.size();

/// Result of the certificate and the runs of one checkpoint.
struct SpecimenResult {
  bool stream_certified = false;
  bool all_certified = false;
  std::size_t claims = 0;  ///< number of bounds that runs were compared with
  int runs = 0;
  std::array<double, class_count> tightness{};  ///< largest signal / largest bound, by class; NaN without signals
  double excess = 0.0;                          ///< largest ratio of signal to bound among exceeded bounds
  std::string violation;                        ///< run with that ratio: checkpoint, bound, arithmetic, input

  [[nodiscard]] bool violated() const { return !violation.empty(); }
};

/// Builds, certifies and runs checkpoint `index`; deterministic in its arguments.
SpecimenResult examine(const SoundnessConfig& config, std::uint32_t index);

std::vector<SpecimenResult> run(const SoundnessConfig& config);

/// Returns a table per arithmetic of certified checkpoints, runs, violations and tightness, followed by the violations.
std::string report(const SoundnessConfig& config, const std::vector<SpecimenResult>& results);

}  // namespace periscope::soundness
