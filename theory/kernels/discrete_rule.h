#pragma once

#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// Σ_j weights_j f(nodes_j).
struct DiscreteRule {
  Vector nodes;
  Vector weights;
};

/// The Gauss rule of at most `most` nodes of the discrete measure with `weights` ≥ 0 at `places`: Σ_j w_j f(x_j) =
/// Σ_i weights_i f(nodes_i) for polynomials f of degree 2·most − 1, and for every f with at most `most` places (Golub
/// and Welsch, with the Jacobi matrix from a fully orthogonalised Lanczos process). Empty if all weights are 0.
DiscreteRule discrete_gauss_rule(const Vector& places, const Vector& weights, Index most);

}  // namespace periscope::theory
