#pragma once

#include "theory/certify/computed_ops.h"
#include "theory/certify/parameters.h"

/// T17 and T24 inside the two modules: every signal of an attention or MLP module for an input that may be anything in
/// a set, another member of it at every token.
namespace periscope::theory {

/// Sets of an attention module's signals; q_projected and k_projected only with QK-norm.
struct AttentionBounds {
  std::optional<BoundedSet> q_projected, k_projected;
  std::optional<BoundedSet> v_projected;               ///< only with V-norm
  std::optional<BoundedSet> gate, acted, gated_mixed;  ///< only with gates: W_g x, σ of it, mixed∘σ
  std::optional<BoundedSet> inner;                     ///< only with an inner norm: what W_o reads
  BoundedSet q, k, v;                                  ///< as the heads read them, at any position
  Vector dots;                                         ///< of every query head: largest |q·k|
  Vector cap_inputs;                                   ///< likewise of what enters a soft cap; empty without one
  Vector scores;  ///< of every query head: largest |score| before softmax, after scale and soft cap
  BoundedSet mixed;
  BoundedSet out;
};

/// A head's output is a convex combination of values, so it is W_v x̄ + b_v with x̄ in the (convex) set of x; heads
/// choose their x̄ freely. Hence out_k = (W_o(W_v c + b_v) + b_o)_k ± Σ_h ‖(W_o^h W_v^h diag(axes))_k‖. Computed weights
/// sum to S in [S₋, S₊] instead of 1: the sum is multiplied by S₊, and what centre and rounding add goes through |W_o|.
/// |score| ≤ scale·‖q‖‖k‖ per head; with QK-norm and RoPE ‖q‖‖k‖ becomes e·max_i max|γ_q|·max|γ_k| over the pairs
/// that RoPE turns. `with_norm`: also an ellipsoid for out. With norms or gates inside, out is the image of what W_o
/// reads (inside_bounds.h).
AttentionBounds attention_bounds(const ModelSpec& model, const Parameters& parameters, int layer, const BoundedSet& x,
                                 bool with_norm, ComputedOps& ops);

/// Sets of an MLP module's signals; gate and acted, φ(gate), only if there is a gate.
struct MlpBounds {
  std::optional<BoundedSet> gate, acted;
  std::optional<BoundedSet> inner;  ///< only with an inner norm: what W_down reads
  BoundedSet up, hidden, out;
};

/// Gated: with gate g = g₀ + a·u and up p = p₀ + b·u for ‖u‖ ≤ 1, φ(g)p = s·gp with s in [0, 1], and
/// gp ≤ g₀p₀ + ‖g₀b + p₀a‖ + (‖a‖‖b‖ + a·b)/2, the largest eigenvalue of the quadratic form. The output's row k is
/// bounded by the box, by ‖W_k‖₂·‖hidden‖₂ and by max|W_kj|·‖hidden‖₁, where ‖hidden‖₁ ≤ ‖φ(g)‖₂‖p‖₂. Plain: φ(p) = p/2
/// + τ∘p/2 with |τ| ≤ 1, so row k is within ½(‖(W_down A)_k‖ + ‖W_k‖‖p‖₂) of its centre.
MlpBounds mlp_bounds(const ModelSpec& model, const Parameters& parameters, int layer, const BoundedSet& x,
                     bool with_norm, ComputedOps& ops);

}  // namespace periscope::theory
