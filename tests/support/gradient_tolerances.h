#pragma once

#include "tests/support/tolerances.h"

/// Rounding bounds for gradients; see tolerances.h.
namespace periscope::testing {

/// norm_backward's dx relative to (|g| + mean|g| + X·mean(|g|X))/s with X = (|x| + mean|x|)/s, and dgain relative to
/// Σ|dy|X: everything is accumulated in f64 and rounded once. `n` counts features, or features and parts.
constexpr double norm_backward_error(double n, DType dtype) {
  return rounding_bound(2, dtype) + 8.0 * rounding_bound(n + 8, DType::f64);
}

/// φ'(x)·dy, relative to `magnitude` = (Φ(x) + |x|Φ'(x))|dy| for GELU and σ(x)(1 + |x|σ(−x))|dy| for SiLU. exp(−x²/2)
/// and the complementary error function have condition numbers of about x².
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

/// dlogits of N rows relative to (p + onehot)/N: computed in f64, rounded once. `spread` is the largest difference of
/// two logits of a row; the exponential turns its rounding into a relative error.
constexpr double cross_entropy_error(double classes, double spread, DType dtype) {
  return rounding_bound(2, dtype) + 2.0 * rounding_bound(classes + 2.0 * spread + 16, DType::f64);
}

}  // namespace periscope::testing
