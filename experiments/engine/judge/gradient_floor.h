#pragma once

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"

namespace periscope::judge {

/// The accuracy that a squared gradient can have.
struct GradientFloor {
  double size = 0.0;       ///< of the terms that cancel in it, squared as it is
  double measured = 0.0;   ///< what rounding makes of it where it is zero, in the run
  double predicted = 0.0;  ///< and in theory
};

/// Floor of ‖∂loss/∂W‖² of a layer's matrix, with the sizes that were measured.
/// Only queries and keys have gradients in which terms cancel: dz_t = A_t∘(dA_t − Σ_s A_ts dA_ts) is zero where all
/// values are equal, or one token is alone, and dA_ts = ⟨dmix_t, v_s⟩ is not. Per head and entry of W_o and W_v, which
/// are independent, E dA_ts² = e σ_o² g · σ_v² D a, g the squared gradient at f_out and a the second moment of A_out.
/// The two terms of dz_t have Σ_s A_ts² ≤ 1 of that each, ‖k_s‖²/e = κ, which is σ_k² D a or 1 behind QK-norm, and a
/// matrix sums dq_t x_tᵀ over tokens, at most λ Σ_t ‖dq_t‖² with λ = D a (1 + (T − 1) c) the largest eigenvalue of
/// ⟨x_t, x_t'⟩ at a token cosine c: errors of tokens that are alike are alike. So the terms that cancel have the mean
/// square
///   size = 2 T (1 + (T − 1)|c|) H · e σ_o² g · σ_v² D a · κ · D a / ρ,  ρ = 1, or behind QK-norm σ_q² D a + ε,
/// and the same with q for k. Rounding of the run is C·u relative to the terms, C = 100·√(2L): measured = size·(C u)² +
/// n(C η)², with n entries and η the smallest number of the dtype. Theory's terms cancel once they are squared, and
/// its activation kernels hold correlations near 1 to about 1e-7 (Mehler's series): predicted = 1e-7·size.
GradientFloor gradient_floor(const StackSpec& spec, const Profile& measured, DType dtype, Weight weight, int layer);

/// Floor of the stream's gradient (mean over tokens of its square), in which nothing cancels: η alone.
GradientFloor stream_floor(const StackSpec& spec, DType dtype);

/// Floor of score_share, which has the accuracy of theory's kernels.
inline constexpr double share_floor = 1e-6;

}  // namespace periscope::judge
