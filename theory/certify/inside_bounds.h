#pragma once

#include "theory/certify/module_bounds.h"

/// T17 and T24 of norms and gates inside modules.
namespace periscope::theory {

/// V-norm: every head's values by themselves; `heads` are the sets of the key/value heads, `all` their box.
struct NormedValues {
  std::vector<BoundedSet> heads;
  BoundedSet all;
};
NormedValues normed_value_sets(const ModelSpec& model, const Parameters& parameters, int layer,
                               const BoundedSet& projected, ComputedOps& ops);

/// The outputs of all heads [H·e] behind V-norm, given their box: Σ_s w_s v̂_s is a convex combination of values in one
/// ellipsoid around 0, times the weights' sum S. All H heads together lie in the ellipsoid of √H S₊ times its axes.
BoundedSet mixed_normed_values(const ModelSpec& model, const NormedValues& values, const WeightSum& weights,
                               const ComputedImage& box);

/// The gate's projection, σ of it, and the heads' outputs behind it. 0 ≤ σ ≤ 1 in every arithmetic, so a gate makes
/// nothing larger: the box is an interval product, and a set in an ellipsoid around 0 stays in it.
struct GateBounds {
  BoundedSet projected, acted, gated;
};
GateBounds gate_bounds(const ModelSpec& model, const Parameters& parameters, int layer, const BoundedSet& x,
                       const BoundedSet& mixed, ComputedOps& ops);

/// What `writer`, W_o or W_down, reads behind the inner norm, and the module's output. `with_norm`: also an ellipsoid
/// for it.
struct InnerBounds {
  BoundedSet inner, out;
};
InnerBounds inner_bounds(const ModelSpec& model, const Parameters& parameters, int sublayer, Weight writer,
                         const BoundedSet& x, bool with_norm, ComputedOps& ops);

}  // namespace periscope::theory
