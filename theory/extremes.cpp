#include "theory/extremes.h"

#include <cmath>
#include <numbers>

namespace periscope::theory {

double typical_maximum(double n, double sigma) {
  const double root = std::sqrt(2.0 * std::log(n));
  return sigma * (root - (std::log(std::log(n)) + std::log(4.0 * std::numbers::pi)) / (2.0 * root));
}

double expected_maximum(const Vector& second_moment, int width) {
  const double largest = std::sqrt(second_moment.maxCoeff());
  if (!(largest > 0.0) || !std::isfinite(largest)) return largest;
  // Beyond 12 standard deviations 1 − erf is under 1e−32: below rounding for any size that fits in memory.
  constexpr int steps = 480;
  const double h = 12.0 * largest / steps;
  double integral = 0.5 * h;  // trapezoid; the integrand is 1 at 0 and 0 at the end
  for (int i = 1; i < steps; ++i) {
    double log_below = 0.0;
    for (const double q : second_moment) {
      if (q > 0.0) log_below += width * std::log1p(-std::erfc(i * h / std::sqrt(2.0 * q)));
      if (log_below < -40.0) break;
    }
    integral += h * -std::expm1(log_below);
  }
  return integral;
}

}  // namespace periscope::theory
