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
  Fault fault = Fault::none;  ///< a mistake planted on purpose
  OnShare on_share = {};
};

/// Operations of one replicate of the chain T25, about, in the unit of the measurement's (those of f32 products).
double chain_operations(const StackSpec& spec);

/// Returns how many replicates a prediction gets whose measurement has `seeds` seeds. Standard errors over replicates
/// are spread/√replicates, of a measurement spread/√seeds: 4 replicates a seed make the difference's error 1.12 times
/// that of the measurement alone, 16 make it 1.03. At least 32 and 4 a seed, up to 16 a seed while they cost less than
/// 4e11 operations (seconds), but no more than 4e13 (minutes) pay for, at least 8. Where all of these cost more than
/// 4e11 operations and more than `operations`, as many as `operations` pay for, equally many for each of `sequences`;
/// 0 if that is fewer than 8: the limit has to do, whose finite-width term a verdict then allows.
int replicates_for(const StackSpec& spec, int seeds, int sequences = 1,
                   double operations = std::numeric_limits<double>::infinity());

/// T25: puts into `prediction.profile`, which has the limit T2–T11, the means over replicates of the chain of Gram
/// matrices, exact at the stack's own widths, with their standard errors; what was there goes to `prediction.limit`.
/// Every sequence of `ids` (none for Gaussian input) gets equally many replicates. Does nothing to a refusal, and
/// refuses where a replicate's signals overflow; with replicates_for = 0 it leaves the limit as it is. What was left
/// out stands in `prediction.left_out`. The result does not depend on the number of threads.
void predict_at_width(const StackSpec& spec, const std::vector<std::vector<int>>& ids,
                      const FiniteWidthOptions& options, Prediction& prediction);

}  // namespace periscope::theory
