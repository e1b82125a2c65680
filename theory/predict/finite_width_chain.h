#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "theory/predict/predict.h"

namespace periscope::theory {

struct FiniteWidthOptions {
  int seeds = 8;       ///< number of seeds of the measurement to compare with
  int replicates = 0;  ///< number of replicates of the chain; 0: chosen by `replicates_for`
  /// Budget of operations if `replicates` is 0: the cost of the measurement.
  double operations = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 0;
  Fault fault = Fault::none;
  OnProgress on_progress = {};
};

/// Returns the approximate cost of one replicate of the finite-width chain (T25), in equivalent f32 operations.
double chain_operations(const StackSpec& spec);

/// Returns the number of replicates for a measurement of `seeds` seeds, the same for each of `sequences`. With standard
/// errors spread/√replicates and spread/√seeds, the error of the difference is 1.12 times the measurement's error for 4
/// replicates per seed, and 1.03 times for 16. At least 32 replicates and 4 per seed are run, and up to 16 per seed
/// if they cost at most 4e11 operations (seconds). If the minimum costs more than 4e13 operations (minutes), fewer are
/// run, but at least 8. The cost never exceeds the larger of 4e11 and `operations`. If that allows fewer than 8,
/// returns 0, and the infinite-width limit is used with its finite-width term.
int replicates_for(const StackSpec& spec, int seeds, int sequences = 1,
                   double operations = std::numeric_limits<double>::infinity());

/// Replaces curves of `prediction.profile`, the infinite-width limit (T2–T11), by means over replicates of the
/// finite-width chain (T25), exact at the stack's widths, and moves the limit to `prediction.limit`. Every sequence of
/// `ids` (empty for Gaussian input) gets the same number of replicates. Sets `prediction.unsupported` if a replicate
/// overflows. Without replicates the limit remains and `prediction.left_out` gives the reason. The result does not
/// depend on the number of threads.
void predict_at_width(const StackSpec& spec, const std::vector<std::vector<int>>& ids,
                      const FiniteWidthOptions& options, Prediction& prediction);

}  // namespace periscope::theory
