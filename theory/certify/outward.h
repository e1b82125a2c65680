#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "theory/kernels/gaussian.h"

/// Bounds computed in double that stay bounds: sizes that neither overflow nor underflow on their way, allowances for
/// what rounding and underflow took, and NaN as "no bound".
namespace periscope::theory {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Relative rounding allowance of a sum of n products: (n + 8)·2⁻⁵², twice the standard bound.
[[nodiscard]] inline double rounding(Index n) {
  return (static_cast<double>(n) + 8.0) * std::numeric_limits<double>::epsilon();
}

/// Absolute allowance: n products that underflow lose at most 2⁻¹⁰⁷⁵ each, and so do a few later steps.
[[nodiscard]] inline double underflow(Index n) {
  return (static_cast<double>(n) + 8.0) * std::numeric_limits<double>::denorm_min();
}

/// x ≥ 0 that n operations computed, rounded up; NaN becomes infinite.
[[nodiscard]] inline double outward(double x, Index n = 0) {
  return std::isnan(x) ? infinity : x * (1.0 + rounding(n)) + underflow(n);
}

/// max |v_i|, 0 for none; infinite if one is NaN (Eigen's maxCoeff and std::max may pass NaN by).
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

/// The exponent by which dividing brings x > 0 near 1; kept where 2^±e are normal numbers.
[[nodiscard]] inline int scale_exponent(double x) { return std::clamp(std::ilogb(x), -1000, 1000); }

/// ‖v‖₂ rounded up, of vectors of any size: where squares could overflow or underflow v is scaled by a power of two.
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
