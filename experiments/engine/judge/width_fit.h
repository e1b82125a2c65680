#pragma once

#include <Eigen/Core>
#include <limits>
#include <vector>

#include "experiments/engine/judge/seed_rows.h"

/// Fits of quantities over widths: a parabola in 1/D and a power law.
namespace periscope::judge {

/// m(D) = m_∞ + b/D + c/D² fitted to a quantity measured at several widths (T23).
struct WidthFit {
  Estimate limit;            ///< m_∞
  Estimate slope;            ///< b
  Estimate curvature;        ///< c
  double degrees = 0.0;      ///< of freedom of limit.error (Welch–Satterthwaite)
  double lack_of_fit = 1.0;  ///< p-value: that the points lie so far off a parabola by chance
  Eigen::Matrix3d covariance = Eigen::Matrix3d::Zero();  ///< of m_∞, b, c

  /// The fitted value at 1/D and its standard error.
  [[nodiscard]] Estimate at(double inverse_width) const;
};

/// Weighted least squares over at least four widths; `points` are means over `seeds` seeds each. Weights come from a
/// power law a·D^p fitted to the standard errors, so that their noise does not select points; the errors of the result
/// come from the standard errors themselves, at least `floor` (rounding). Lack of fit: the weighted squares of the
/// residuals over their n − 3 degrees of freedom under Fisher's F.
WidthFit fit_width(const std::vector<int>& widths, const std::vector<Estimate>& points, int seeds, double floor);

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
