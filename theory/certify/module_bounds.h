#pragma once

#include <functional>
#include <vector>

#include "theory/certify/computed_ops.h"
#include "theory/certify/parameters.h"

/// Bounds on the signals inside attention and MLP modules (T17, T24) if the input of every token is in a given set.
namespace periscope::theory {

/// A module and its set of inputs.
struct BoundedModule {
  const ModelSpec& model;
  const Parameters& parameters;
  int sublayer;
  const BoundedSet& input;
  bool with_norm;  ///< compute an ellipsoid for the output, because its 2-norm is needed
  ComputedOps& ops;
  /// Receives the magnitudes of every signal, per feature, in dataflow order; for every expert of a mixture.
  std::function<void(Signal signal, const Vector& magnitude, int expert)> recorder;
  int expert = -1;  ///< expert whose matrices are read; −1 outside mixtures

  [[nodiscard]] int layer() const { return sublayer / 2; }
  void record(Signal signal, const Vector& magnitude) const { recorder(signal, magnitude, expert); }
  [[nodiscard]] RowMatrix matrix(Weight weight) const { return parameters.matrix(matrix_id(layer(), weight, expert)); }
  [[nodiscard]] Vector bias(Weight weight) const { return parameters.bias(layer(), weight); }
  [[nodiscard]] NormBound norm(Weight weight) const {
    const NormParameters n = parameters.norm(sublayer, weight);
    return {NormKind::rms, model.norm_eps, n.gain, n.bias};
  }
  /// Returns the module's output, given the input of its last matrix.
  [[nodiscard]] BoundedSet output(Weight last, const BoundedSet& x) const {
    return with_norm ? ops.mapped(last, matrix(last), bias(last), x).image
                     : ops.linear(last, matrix(last), bias(last), x);
  }
  /// Returns the module's output, given the input of the inner norm before its last matrix.
  [[nodiscard]] BoundedSet output_after_norm(Weight last, const BoundedSet& x) const {
    const BoundedSet inner = ops.normalised(x, norm(Weight::inner_norm));
    record(Signal::inner, inner.magnitude());
    return output(last, inner);
  }
};

/// Returns a set that contains the outputs of an attention module.
/// A head's output, a convex combination of values, is W_v x̄ + b_v with x̄ in the convex set of x; x̄ may differ by
/// head. Hence out_k = (W_o(W_v c + b_v) + b_o)_k ± Σ_h ‖(W_o^h W_v^h diag(axes))_k‖. Computed weights sum to
/// S in [S₋, S₊] instead of 1: the radius is multiplied by S₊, and errors of centre and rounding pass through |W_o|.
/// Per head |score| ≤ scale·‖q‖‖k‖; with QK-norm and RoPE ‖q‖‖k‖ becomes e·max_i max|γ_q|·max|γ_k| over pairs i rotated
/// by RoPE. With norms or gates inside the module, the output is the image of the set at the input of W_o.
BoundedSet attention_bounds(const BoundedModule& module);

/// Returns a set that contains the outputs of an MLP.
/// Gated: with gate g = g₀ + a·u and up p = p₀ + b·u for ‖u‖ ≤ 1, φ(g)p = s·gp with s in [0, 1], and
/// gp ≤ g₀p₀ + ‖g₀b + p₀a‖ + (‖a‖‖b‖ + a·b)/2, using the largest eigenvalue of the quadratic form. Output row k is
/// bounded by the box, by ‖W_k‖₂·‖hidden‖₂ and by max|W_kj|·‖hidden‖₁, where ‖hidden‖₁ ≤ ‖φ(g)‖₂‖p‖₂.
/// Plain: φ(p) = p/2 + τ∘p/2 with |τ| ≤ 1, so row k is within ½(‖(W_down A)_k‖ + ‖W_k‖‖p‖₂) of its centre.
/// Mixture of experts: a weighted mean of points in the smallest box around the experts' boxes.
BoundedSet mlp_bounds(const BoundedModule& module);

}  // namespace periscope::theory
