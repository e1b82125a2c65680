#pragma once

#include <Eigen/Core>
#include <vector>

#include "experiments/engine/judge/seed_rows.h"

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

}  // namespace periscope::judge
