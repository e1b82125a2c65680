#pragma once

#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// Quadrature rule Σ_j weights_j f(nodes_j).
struct DiscreteRule {
  Vector nodes;
  Vector weights;
};

/// Returns the Gauss rule with at most `max_nodes` nodes for the discrete measure with `weights` w_j ≥ 0 at `points`
/// x_j: Σ_j w_j f(x_j) = Σ_i weights_i f(nodes_i). Exact for polynomials f of degree 2·max_nodes − 1, and for every f
/// if there are at most `max_nodes` points. Method of Golub and Welsch (1969), with the Jacobi matrix from a
/// fully reorthogonalised Lanczos process. Empty if all weights are 0.
DiscreteRule discrete_gauss_rule(const Vector& points, const Vector& weights, Index max_nodes);

}  // namespace periscope::theory
