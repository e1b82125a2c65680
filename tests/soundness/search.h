#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "theory/certify/certificate.h"

/// Attack on certificates (T24): certifies random and adversarial checkpoints, and runs them in an emulation of the
/// certified arithmetic. No run may exceed a bound.
namespace periscope::soundness {

struct SoundnessConfig {
  std::uint64_t seed = 0;
  std::uint32_t first = 0;  ///< index of the first checkpoint
  std::uint32_t checkpoints = 1000;
  std::vector<RunArithmetic> arithmetics;  ///< checkpoint i uses element i mod size()
  double scale = 1.0;                      ///< factor of every bound; violations are expected below 1
};

inline constexpr std::size_t class_count = theory::signal_class_names.size();

/// Result of the runs of one checkpoint.
struct SpecimenResult {
  bool stream_certified = false;
  bool all_certified = false;
  std::size_t claims = 0;  ///< number of bounds compared with runs
  int runs = 0;
  std::array<double, class_count> tightness{};  ///< largest value over largest bound, by class; NaN if none
  double excess = 0.0;                          ///< largest ratio of a value to an exceeded bound
  std::string violation;                        ///< its checkpoint, bound, arithmetic and input

  [[nodiscard]] bool violated() const { return !violation.empty(); }
};

/// Builds, certifies and runs checkpoint `index`. Deterministic.
SpecimenResult examine(const SoundnessConfig& config, std::uint32_t index);

/// Examines all checkpoints, on all threads.
std::vector<SpecimenResult> run(const SoundnessConfig& config);

/// Returns a table per arithmetic: certified, run and violated checkpoints, and tightness. Then lists the violations.
std::string report(const SoundnessConfig& config, const std::vector<SpecimenResult>& results);

}  // namespace periscope::soundness
