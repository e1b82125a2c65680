#pragma once

#include <Eigen/Core>
#include <limits>
#include <vector>

#include "experiments/engine/judge/seed_rows.h"

/// Fits over widths: a parabola in 1/D, and a power law.
namespace periscope::judge {

/// m(D) = m_∞ + b/D + c/D² fitted to a quantity measured at several widths (T23).
struct WidthFit {
  Estimate limit;            ///< m_∞
  Estimate slope;            ///< b
  Estimate curvature;        ///< c
  double degrees = 0.0;      ///< degrees of freedom of limit.error (Welch–Satterthwaite)
  double lack_of_fit = 1.0;  ///< p-value of the null hypothesis that the true values are a parabola in 1/D
  Eigen::Matrix3d covariance = Eigen::Matrix3d::Zero();  ///< covariance of m_∞, b, c

  /// Returns the fitted value at 1/D and its standard error.
  [[nodiscard]] Estimate at(double inverse_width) const;
};

/// Fits by weighted least squares over at least four widths; `points` are means over `seeds` seeds each. Weights come
/// from a power law a·D^p fitted to the standard errors, so that they are not affected by the noise of these errors.
/// Errors of the result come from the standard errors themselves, at least `floor` (rounding). Lack of fit is tested by
/// Fisher's F for the weighted squares of the residuals over their n − 3 degrees of freedom.
WidthFit fit_width(const std::vector<int>& widths, const std::vector<Estimate>& points, int seeds, double floor);

/// Fit of y_i = a·x_i^p to values with standard errors.
struct PowerLaw {
  double exponent = 0.0;
  /// Half the width of the interval in which χ² exceeds its minimum by at most 1; NaN if it ends outside [−4, 2].
  double exponent_error = std::numeric_limits<double>::quiet_NaN();
  double amplitude = 0.0;
  double chi_squared = 0.0;   ///< χ² of the best fit
  double significance = 0.0;  ///< √(χ²(a = 0) − χ²): distance of y from 0 in standard errors
};

/// Fits by weighted least squares: a is solved exactly for every p, and p is searched in [−4, 2]. Fits the values
/// themselves, not their logarithms, so that values near zero of either sign are valid.
PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error);

}  // namespace periscope::judge
