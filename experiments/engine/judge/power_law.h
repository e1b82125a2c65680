#pragma once

#include <limits>
#include <vector>

namespace periscope::judge {

/// The fit of y_i = a·x_i^p to values with standard errors.
struct PowerLaw {
  double exponent = 0.0;
  double exponent_error = std::numeric_limits<double>::quiet_NaN();  ///< half the interval in which χ² rises by ≤ 1
  double amplitude = 0.0;
  double chi_squared = 0.0;   ///< at the best fit
  double significance = 0.0;  ///< √(χ²(a = 0) − χ²): distance of y from 0 in standard errors
};

/// Weighted least squares, with a solved exactly for every p and p searched in [−4, 2]. Fits the values themselves, not
/// logarithms, so that values near zero of either sign are harmless. exponent_error is NaN if the interval has no end.
PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error);

}  // namespace periscope::judge
