#pragma once

#include <vector>

namespace periscope::judge {

/// The fit of y_i = a·x_i^p to values with standard errors.
struct PowerLaw {
  double exponent = 0.0;
  double exponent_error = 0.0;  ///< half the interval in which χ² rises by at most 1; NaN if it has no end
  double amplitude = 0.0;
  double chi_squared = 0.0;   ///< at the best fit
  double significance = 0.0;  ///< √(χ²(a = 0) − χ²): how many standard errors y is away from nothing
};

/// Weighted least squares, a solved exactly for every p, p searched in [−4, 2]. Works on the values
/// themselves, not on logarithms, so that values near zero of either sign stay harmless.
PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error);

}  // namespace periscope::judge
