#pragma once

#include "theory/certify/bounded_set.h"

/// Bounds of pointwise norms y = γ∘φ(αx) + b (T17). φ increases and φ(0) = 0, so |φ(αx)| ≤ φ(|α|m) for |x| ≤ m; tanh
/// and erf are at most 1, so |y_k − b_k| ≤ |γ_k|.
namespace periscope::theory {

/// Returns φ(u) for u ≥ 0, rounded up but at most 1 for tanh and erf.
double phi_magnitude(NormFormula::Phi phi, double u);

/// Returns the largest slope of φ: |φ(u)| ≤ largest_slope·|u|.
double largest_slope(NormFormula::Phi phi);

/// Set of outputs of a pointwise norm, which also lie in the ellipsoid b + γ∘v, ‖v‖ ≤ slope·|α|·‖x‖.
BoundedSet pointwise_normalised(const BoundedSet& x, const NormBound& norm);

}  // namespace periscope::theory
