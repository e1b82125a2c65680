#pragma once

#include "sim/spec/model_spec.h"
#include "theory/kernels/gaussian.h"

/// Kernel maps of norms and gates inside modules (docs/theory/attention_and_mlp.md): V-norm, gates on the outputs of
/// heads, and the norm before W_o or W_down.
namespace periscope::theory {

/// Kernel of the values after V-norm, E⟨v̂_t, v̂_t'⟩/e = ρ·s_e(ρ²), for heads of e features with covariance c [T, T] per
/// feature. ρ is the correlation of the two tokens, and ε enters as in T2. Exact for ε = 0:
///   s_e(ρ²) = ∫cosᵉθ (1 − ρ² sin²θ)^(−1/2) dθ / ∫cosᵉ⁻¹θ dθ over [0, π/2].
/// ρ·s_e(ρ²) is the mean cosine of two Gaussian vectors of correlation ρ. s_e is ₂F₁(½, ½; (e+2)/2; ρ²) scaled to
/// s_e(1) = 1, and 1 − (1 − ρ²)/(2e) for e → ∞.
Matrix normed_values(const Matrix& c, int features, double eps);

/// Elementwise factor from the gradient kernel after V-norm to the one before it: ∂`normed_values`/∂c_tt', because
/// E tr(J_t J_t'ᵀ) of a map with Jacobian J is the derivative of its kernel. Equals 1/√(r_t r_t') (T8) times
/// ∫cosᵉθ (1 − ρ² sin²θ)^(−3/2) dθ / ∫cosᵉ⁻¹θ dθ: 1 for e → ∞, and (e − 1)/(e − 2) on the diagonal, infinite for e ≤ 2.
Matrix normed_values_slope(const Matrix& c, int features, double eps);

/// Kernels of the sigmoid gates on head outputs, with gate logits g Gaussian of covariance σ_g² D K̃.
struct GateKernels {
  Matrix values;  ///< E[σ(g_t)σ(g_t')]
  Matrix slopes;  ///< E[σ'(g_t)σ'(g_t')]
};
GateKernels gate_kernels(const StackSpec& spec, int layer, const Matrix& input);

/// Returns the squared divisor of an inner norm, the mean square + ε of every token [T].
Vector inner_square(const Matrix& kernel, double eps);
/// Inner norm of gain 1 on a kernel (T2) or a gradient kernel (T8): x_tt'/√(r_t r_t'); 0 where r_t or r_t' is 0.
Matrix through_inner_norm(const Matrix& x, const Vector& r);

}  // namespace periscope::theory
