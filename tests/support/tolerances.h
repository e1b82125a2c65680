#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"

/// Tolerances for comparing two computations of one number. They are bounds from rounding analysis, not fitted: a
/// failure is a bug or a wrong bound. For statistical comparisons see significance.h.
namespace periscope::testing {

/// Unit round-off u: the largest relative error of one operation.
constexpr double unit_roundoff(DType dtype) { return format_of(dtype).unit_roundoff(); }

constexpr double smallest_normal(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

/// Rounding bound γ_n of a dtype.
constexpr double rounding_bound(double n, DType dtype) { return periscope::rounding_bound(n, unit_roundoff(dtype)); }

/// Bound for n roundings in the dtype plus n roundings of the reference in f64.
constexpr double rounding_bound_of_both(double n, DType dtype) {
  return rounding_bound(n, dtype) + rounding_bound(n, DType::f64);
}

/// Error of a dot product of n terms, relative to Σ|x||w|.
constexpr double dot_error(double n, DType dtype) { return rounding_bound_of_both(n, dtype); }

/// Error of a norm over n features, relative to |gain|·(|x| + mean|x|)/rms + |bias|. Moments are accumulated in f64,
/// so n multiplies only the round-off of f64; the result is rounded, scaled and shifted.
constexpr double norm_error(double n, DType dtype) {
  return rounding_bound(3, dtype) + 2.0 * rounding_bound(n + 8, DType::f64);
}

/// Error of a rotated pair (a, b), relative to |a| + |b|: rounding of the cosine, products and sum. The angle is
/// position times a power and has four relative roundings, so its error is proportional to the position.
constexpr double rope_error(double position, DType dtype) {
  return rounding_bound(3, dtype) + 2.0 * rounding_bound(4.0 + 4.0 * position, DType::f64);
}

/// Absolute error of φ(x). SiLU: an exponential, a sum, a quotient. GELU: the condition number of erfc is about x² in
/// the left tail, which ends at −40. GELU's tanh form: an exponential of u(x) ≈ 1.6|x|(1 + 0.05x²), whose rounding
/// error is proportional to u. Where e^{−x} overflows, the result is 0 or subnormal.
inline double activation_error(Activation kind, double x, double y, DType dtype) {
  if (kind == Activation::relu) return 0.0;
  if (kind == Activation::gelu_tanh) {
    const double u = 1.6 * std::abs(x) * (1.0 + 0.05 * x * x);
    return rounding_bound_of_both(8.0 + 6.0 * std::min(u, 800.0), dtype) * std::abs(y) +
           std::abs(x) * smallest_normal(dtype);
  }
  const double tail = kind == Activation::gelu ? std::clamp(-x, 0.0, 40.0) : 0.0;
  return rounding_bound_of_both(8.0 + 2.0 * tail * tail, dtype) * std::abs(y) + std::abs(x) * smallest_normal(dtype);
}

/// Error of norm_backward's dx, relative to (|g| + mean|g| + X·mean(|g|X))/s with divisor s, g = gain·dy and
/// X = (|x| + mean|x|)/s, and of dgain, relative to Σ|dy|X. Sums are accumulated in f64 and rounded once. `n` counts
/// features, or features and parts.
constexpr double norm_backward_error(double n, DType dtype) {
  return rounding_bound(2, dtype) + 8.0 * rounding_bound(n + 8, DType::f64);
}

/// Error of φ'(x)·dy, relative to `magnitude` = (Φ(x) + |x|Φ'(x))|dy| for GELU and σ(x)(1 + |x|σ(−x))|dy| for SiLU.
/// exp(−x²/2) and the complementary error function have condition numbers of about x².
inline double slope_error(Activation kind, double x, double magnitude, DType dtype) {
  if (kind == Activation::relu) return 0.0;
  if (kind == Activation::gelu_tanh) {
    const double u = 1.6 * std::abs(x) * (1.0 + 0.05 * x * x);
    return rounding_bound_of_both(16.0 + 6.0 * std::min(u, 800.0), dtype) * magnitude +
           (1.0 + x * x * (1.0 + x * x)) * smallest_normal(dtype);
  }
  const double tail = kind == Activation::gelu ? std::min(std::abs(x), 40.0) : 0.0;
  return rounding_bound_of_both(12.0 + 4.0 * tail * tail, dtype) * magnitude + (1.0 + x * x) * smallest_normal(dtype);
}

/// Error of dlogits of N rows, relative to (p + onehot)/N; dlogits are computed in f64 and rounded once. `spread` is
/// the largest difference between two logits of a row; the exponential turns its rounding into a relative error.
constexpr double cross_entropy_error(double classes, double spread, DType dtype) {
  return rounding_bound(2, dtype) + 2.0 * rounding_bound(classes + 2.0 * spread + 16, DType::f64);
}

/// Row statistics are computed in f64 for every dtype. The error of the mean enters a two-pass variance only squared,
/// so a one-pass formula fails.
inline double mean_error(double n, double mean_magnitude) {
  return 2.0 * rounding_bound(n, DType::f64) * mean_magnitude;
}
inline double variance_error(double n, double variance, double mean_magnitude) {
  const double shift = mean_error(n, mean_magnitude);
  return 2.0 * rounding_bound(n + 8, DType::f64) * variance + 2.0 * shift * shift;
}
/// Error of m₄/m₂² to first order in the mean's error: |∂κ/∂mean| = 4|m₃|/m₂² ≤ 4√κ/σ ≤ 4κ/σ.
inline double kurtosis_error(double n, double kurtosis, double variance, double mean_magnitude) {
  const double shift = mean_error(n, mean_magnitude) / std::sqrt(variance);
  return kurtosis * (2.0 * rounding_bound(4.0 * n + 16, DType::f64) + 4.0 * shift);
}
/// Absolute error of (‖Σ x/‖x‖‖² − T)/(T(T−1)): n + T roundings.
constexpr double cosine_error(double n, double tokens) { return 8.0 * rounding_bound(n + tokens + 8, DType::f64); }

/// Error of a stack's signal, relative to its largest entry. A sublayer adds the roundings of four consecutive
/// sums of n terms, and amplifies incoming errors by at most `gain`.
inline double stack_error(int sublayers, double n, DType dtype, double gain = 2.0) {
  return rounding_bound_of_both(4.0 * n + 32.0, dtype) * std::pow(gain, sublayers);
}

}  // namespace periscope::testing
