#pragma once

#include "sim/spec/model_spec.h"
#include "theory/kernels/gaussian.h"

/// What norms and gates inside modules make of kernels (docs/theory/attention_and_mlp.md): the norm of the
/// values, the gates of the heads' outputs, and the norm before W_o or W_down.
namespace periscope::theory {

/// The kernel of the values after V-norm, E⟨v̂_t, v̂_t'⟩/e, for values of covariance c [T, T] per feature and heads of e
/// features: ρ·s_e(ρ²) with ρ the correlation of the two tokens, and ε as in T2. Exact for ε = 0:
///   s_e(ρ²) = ∫cosᵉθ (1 − ρ² sin²θ)^(−1/2) dθ / ∫cosᵉ⁻¹θ dθ over [0, π/2],
/// which is ₂F₁(½, ½; (e+2)/2; ρ²) at s_e(1) = 1: the mean cosine of two Gaussian vectors. 1 − (1 − ρ²)/(2e) for e → ∞.
Matrix normed_values(const Matrix& c, int features, double eps);

/// Elementwise factor of a gradient kernel from after V-norm to before it: the derivative of `normed_values` by c_tt',
/// as E tr(J_t J_t'ᵀ) of a map's Jacobians is the derivative of its kernel. 1/√(r_t r_t') of T8 times
/// ∫cosᵉθ (1 − ρ² sin²θ)^(−3/2) dθ / ∫cosᵉ⁻¹θ dθ: 1 for e → ∞, and (e − 1)/(e − 2) on the diagonal, infinite for e ≤ 2.
Matrix normed_values_slope(const Matrix& c, int features, double eps);

/// E[σ(g_t)σ(g_t')] and E[σ'(g_t)σ'(g_t')] of gates with g Gaussian of covariance σ_g² D K̃.
struct GateKernels {
  Matrix open;
  Matrix slope;
};
/// Those of a layer whose attention reads `input`.
GateKernels gate_kernels(const StackSpec& spec, int layer, const Matrix& input);

/// Returns the mean square + ε of every token [T], which an inner norm divides by.
Vector inner_square(const Matrix& kernel, double eps);
/// T2 and T8 of an inner norm, whose gain is 1: x_tt'/√(r_t r_t'); 0 where r is.
Matrix through_inner_norm(const Matrix& x, const Vector& r);

}  // namespace periscope::theory
