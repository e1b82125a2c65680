#pragma once

#include <cstdint>
#include <vector>

#include "experiments/studies/verify/bound_case.h"

namespace periscope::verify {

/// One curve of the sweep: a placement, over the factors on ‖h‖. Statistics are over the stacks.
struct MassiveCurve {
  std::string placement;  ///< pre, peri, post
  bool final_norm = false;
  std::vector<double> gradient = {}, low = {},
                      high = {};    ///< ‖∂loss/∂W2‖: median and the quantiles 0.16 and 0.84 [factor]
  std::vector<double> bound = {};   ///< T14's, median [factor]
  double ceiling = 0.0;             ///< bound for every factor at once, median; infinite where there is none
  double largest_ratio = 0.0;       ///< gradient over bound, all stacks and factors
  double largest_to_ceiling = 0.0;  ///< gradient over its own stack's ceiling
  double lowest_exponent = 0.0, highest_exponent = 0.0;  ///< of ‖h‖ in the gradient, over the last decade
};

struct MassiveSweep {
  int stacks = 0, width = 0, hidden = 0;
  std::vector<double> factor = {};  ///< on ‖h‖, 1 … 1e6
  std::vector<MassiveCurve> curves = {};

  /// Without a final norm Pre-LN's gradient grows like ‖h‖ in every stack: the sweep can see growth.
  [[nodiscard]] bool grows_without_final_norm() const;
  /// With it, no stack passes its ceiling and none still grows.
  [[nodiscard]] bool bounded_with_final_norm() const;
};

/// Random ReLU stacks (1/fan-in, one token, gain 1, ε = 0) whose W1 is multiplied by each factor, so that h is; the
/// label is the class that a speaks most against, so that 1 − p_y does not vanish.
MassiveSweep sweep_massive(std::uint64_t seed);

}  // namespace periscope::verify
