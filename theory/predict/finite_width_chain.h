#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "theory/predict/predict.h"

namespace periscope::theory {

struct FiniteWidthOptions {
  int seeds = 8;       ///< of the measurement that the prediction is for
  int replicates = 0;  ///< of the chain; 0: as `replicates_for` says
  /// Then: operations that the replicates may take, which are those of the measurement.
  double operations = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 0;
  Fault fault = Fault::none;  ///< an injected mistake
  OnProgress on_progress = {};
};

/// Operations of one replicate of the chain T25, about, in the unit of the measurement's (those of f32 products).
double chain_operations(const StackSpec& spec);

/// Returns the number of replicates for a measurement of `seeds` seeds. Standard errors are spread/√replicates and
/// spread/√seeds: with 4 replicates a seed the error of the difference is 1.12 times that of the measurement, with 16
/// 1.03 times. At least 32 and 4 a seed, up to 16 a seed for 4e11 operations (seconds), at most 4e13 operations
/// (minutes) but at least 8. If these cost more than 4e11 operations and more than `operations`, as many as
/// `operations` pay for, equally many for each of `sequences`; 0 if fewer than 8: then the limit serves, with its
/// finite-width term.
int replicates_for(const StackSpec& spec, int seeds, int sequences = 1,
                   double operations = std::numeric_limits<double>::infinity());

/// T25: replaces curves of `prediction.profile`, the limit T2–T11, by means over replicates of the chain of Gram
/// matrices, exact at the stack's own widths, and moves the limit to `prediction.limit`. Every sequence of `ids` (none
/// for Gaussian input) gets equally many replicates. Refuses where a replicate's signals overflow; without replicates
/// the limit stays, and `prediction.left_out` says why. The result does not depend on the number of threads.
void predict_at_width(const StackSpec& spec, const std::vector<std::vector<int>>& ids,
                      const FiniteWidthOptions& options, Prediction& prediction);

}  // namespace periscope::theory
