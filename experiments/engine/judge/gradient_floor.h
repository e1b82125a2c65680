#pragma once

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"

namespace periscope::judge {

/// The rounding error of a squared gradient.
struct GradientFloor {
  double size = 0.0;       ///< sum of the squares of the terms that cancel in it
  double measured = 0.0;   ///< what rounding makes of an exact zero, in the run
  double predicted = 0.0;  ///< the same, in theory
};

/// Floor of ‖∂loss/∂W‖² of a layer's matrix, with the measured sizes.
/// Terms cancel only in the gradients of queries and keys: dz_t = A_t∘(dA_t − Σ_s A_ts dA_ts) is zero if all values are
/// equal, or for one token, but dA_ts = ⟨dmix_t, v_s⟩ is not. Per head, with independent entries of W_o and W_v,
/// E dA_ts² = e σ_o² g · σ_v² D a, with g the squared gradient at f_out and a the second moment of A_out. Each of the
/// two terms of dz_t has at most that size, as Σ_s A_ts² ≤ 1; ‖k_s‖²/e = κ is σ_k² D a, or 1 after QK-norm. A matrix
/// sums dq_t x_tᵀ over tokens, at most λ Σ_t ‖dq_t‖² with λ = D a (1 + (T − 1) c) the largest eigenvalue of ⟨x_t, x_t'⟩
/// at a token cosine c, as the errors of similar tokens are correlated. So the terms that cancel have the mean square
///   size = 2 T (1 + (T − 1)|c|) H · e σ_o² g · σ_v² D a · κ · D a / ρ,  ρ = 1, or after QK-norm σ_q² D a + ε,
/// and for keys with q for k. The run's rounding relative to the terms is C·u with C = 100·√(2L): measured = size·(C
/// u)²
/// + n(C η)², with n entries and η the dtype's smallest number. Theory squares its terms before they cancel, and its
/// activation kernels have correlations near 1 to about 1e-7 (Mehler's series): predicted = 1e-7·size.
GradientFloor gradient_floor(const StackSpec& spec, const Profile& measured, DType dtype, Weight weight, int layer);

/// Floor of the mean square of the stream's gradient, in which nothing cancels: η alone.
GradientFloor stream_floor(const StackSpec& spec, DType dtype);

/// Floor of score_share: the accuracy of theory's kernels.
inline constexpr double share_floor = 1e-6;

}  // namespace periscope::judge
