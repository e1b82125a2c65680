#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "theory/kernels/gaussian.h"

/// Helpers for valid bounds in double: norms without overflow or underflow, margins for rounding and
/// underflow, and NaN as "no bound".
namespace periscope::theory {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Returns a bound on the relative rounding error of a sum of n products: (n + 8)·2⁻⁵², twice the standard bound.
[[nodiscard]] inline double rounding(Index n) {
  return (static_cast<double>(n) + 8.0) * std::numeric_limits<double>::epsilon();
}

/// Returns a bound on the absolute error of n products that underflow (2⁻¹⁰⁷⁵ each) and of a few later steps.
[[nodiscard]] inline double underflow(Index n) {
  return (static_cast<double>(n) + 8.0) * std::numeric_limits<double>::denorm_min();
}

/// Rounds up x ≥ 0, the result of n operations; NaN becomes infinite.
[[nodiscard]] inline double outward(double x, Index n = 0) {
  return std::isnan(x) ? infinity : x * (1.0 + rounding(n)) + underflow(n);
}

/// Returns max |v_i|; 0 if empty, infinite if any entry is NaN (Eigen's maxCoeff and std::max can miss NaN).
template <class Derived>
[[nodiscard]] double largest_of(const Eigen::MatrixBase<Derived>& v) {
  double largest = 0.0;
  for (Index i = 0; i < v.rows(); ++i) {
    for (Index j = 0; j < v.cols(); ++j) {
      const double x = std::abs(v.derived().coeff(i, j));
      if (!(x <= largest)) largest = std::isnan(x) ? infinity : x;
    }
  }
  return largest;
}

/// Returns e with x/2^e near 1 for x > 0, clamped so that 2^±e are normal numbers.
[[nodiscard]] inline int scale_exponent(double x) { return std::clamp(std::ilogb(x), -1000, 1000); }

/// Returns ‖v‖₂ rounded up. If squares could overflow or underflow, v is scaled by a power of two first.
template <class Derived>
[[nodiscard]] double norm_of(const Eigen::MatrixBase<Derived>& v) {
  const double square = v.squaredNorm();
  if (square > 1e-280 && square < 1e300) return std::sqrt(square) * (1.0 + rounding(v.size()));
  const double largest = largest_of(v);
  if (largest == 0.0 || !std::isfinite(largest)) return largest;
  const int e = scale_exponent(largest);
  const double scaled = (v.derived() * std::ldexp(1.0, -e)).squaredNorm();
  return outward(std::ldexp(std::sqrt(scaled), e), v.size());
}

}  // namespace periscope::theory
