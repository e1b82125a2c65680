#pragma once

#include <functional>
#include <vector>

#include "theory/certify/computed_ops.h"
#include "theory/certify/parameters.h"

/// T17 and T24 inside the two modules: every signal of an attention or MLP module for an input that may be anything in
/// a set, another member of it at every token.
namespace periscope::theory {

/// A module and its input.
struct BoundedModule {
  const ModelSpec& model;
  const Parameters& parameters;
  int sublayer;
  const BoundedSet& input;
  bool with_norm;  ///< the output's 2-norm matters: its set gets an ellipsoid
  ComputedOps& ops;
  /// Receives the magnitudes of every signal, feature by feature, in the order of the dataflow.
  std::function<void(Signal signal, const Vector& magnitude)> note;

  [[nodiscard]] int layer() const { return sublayer / 2; }
  [[nodiscard]] RowMatrix matrix(Weight weight) const { return parameters.matrix(layer(), weight); }
  [[nodiscard]] Vector bias(Weight weight) const { return parameters.bias(layer(), weight); }
  /// A norm inside the module.
  [[nodiscard]] NormBound norm(Weight weight) const {
    const NormParameters n = parameters.norm(sublayer, weight);
    return {NormKind::rms, model.norm_eps, n.gain, n.bias};
  }
  /// The module's output, from what its last matrix reads.
  [[nodiscard]] BoundedSet written(Weight last, const BoundedSet& x) const {
    return with_norm ? ops.mapped(matrix(last), bias(last), x).image : ops.linear(matrix(last), bias(last), x);
  }
  /// The same with the inner norm before the last matrix.
  [[nodiscard]] BoundedSet written_after_norm(Weight last, const BoundedSet& x) const {
    const BoundedSet inner = ops.normalised(x, norm(Weight::inner_norm));
    note(Signal::inner, inner.magnitude());
    return written(last, inner);
  }
};

/// Returns a set for the module's output.
/// A head's output is a convex combination of values, so it is W_v x̄ + b_v with x̄ in the (convex) set of x; heads
/// choose their x̄ freely. Hence out_k = (W_o(W_v c + b_v) + b_o)_k ± Σ_h ‖(W_o^h W_v^h diag(axes))_k‖. Computed weights
/// sum to S in [S₋, S₊] instead of 1: the sum is multiplied by S₊, and what centre and rounding add goes through |W_o|.
/// |score| ≤ scale·‖q‖‖k‖ per head; with QK-norm and RoPE ‖q‖‖k‖ becomes e·max_i max|γ_q|·max|γ_k| over the pairs
/// that RoPE turns. With norms or gates inside, out is the image of what W_o reads.
BoundedSet attention_bounds(const BoundedModule& module);

/// Returns a set for the module's output.
/// Gated: with gate g = g₀ + a·u and up p = p₀ + b·u for ‖u‖ ≤ 1, φ(g)p = s·gp with s in [0, 1], and
/// gp ≤ g₀p₀ + ‖g₀b + p₀a‖ + (‖a‖‖b‖ + a·b)/2, the largest eigenvalue of the quadratic form. The output's row k is
/// bounded by the box, by ‖W_k‖₂·‖hidden‖₂ and by max|W_kj|·‖hidden‖₁, where ‖hidden‖₁ ≤ ‖φ(g)‖₂‖p‖₂. Plain: φ(p) = p/2
/// + τ∘p/2 with |τ| ≤ 1, so row k is within ½(‖(W_down A)_k‖ + ‖W_k‖‖p‖₂) of its centre.
BoundedSet mlp_bounds(const BoundedModule& module);

}  // namespace periscope::theory
