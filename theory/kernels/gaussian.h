#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <functional>

#include "sim/spec/model_spec.h"

/// Expectations of nonlinear functions of Gaussian pairs, for activations and MLPs (T5, T10).
namespace periscope::theory {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Index = Eigen::Index;

/// Applies a symmetric function of (c_tt, c_t't', c_tt') to every pair of tokens.
template <class Pair>
Matrix for_pairs(const Matrix& c, const Pair& pair) {
  Matrix out(c.rows(), c.cols());
  for (Index t = 0; t < c.rows(); ++t) {
    for (Index s = 0; s <= t; ++s) {
      out(t, s) = out(s, t) = pair(std::max(c(t, t), 0.0), std::max(c(s, s), 0.0), c(t, s));
    }
  }
  return out;
}

/// Returns Φ_tt' = E[φ(u_t) φ(u_t')] for (u_t, u_t') centred Gaussian with covariance c [T, T]. Closed forms for ReLU
/// (arc-cosine kernel, Cho & Saul 2009) and GELU (T5), Mehler's series for other activations.
Matrix activation_kernel(Activation activation, const Matrix& c);

/// Returns Φ'_tt' = E[φ'(u_t) φ'(u_t')].
Matrix derivative_kernel(Activation activation, const Matrix& c);

/// Returns E[f(u_t) f(u_t')] for any f by Mehler's series: with f(√s z) = Σ_n a_n(s) He_n(z)/√n!,
/// E = Σ_n a_n(c_tt) a_n(c_t't') ρⁿ, ρ the correlation. The trapezoid rule under the Gaussian weight computes the
/// coefficients (spectrally accurate for smooth f). Terms up to n = 64 are summed. The remainder is approximated
/// by √(r_t r_t') ρ⁶⁵ with r_t = Σ_{n>64} a_n(c_tt)², which is exact on the diagonal.
Matrix mehler_kernel(const std::function<double(double)>& f, const Matrix& c);

/// Returns E[f(z)] for z ~ N(0, variance), by the trapezoid rule of mehler_kernel.
double gaussian_mean(const std::function<double(double)>& f, double variance);

}  // namespace periscope::theory
