#pragma once

#include <optional>

#include "sim/spec/model_spec.h"
#include "theory/certify/outward.h"
#include "theory/certify/spectral_norm.h"

/// Sets that contain every value of a token's signal, and their images under the operations of a stack (T17, T24;
/// proofs in docs/theory/certificates.md). Every function returns a superset of the image in exact arithmetic: bounds
/// are rounded outwards to cover the rounding of double, and NaN counts as no bound. computed_ops.h adds the rounding
/// of a run's arithmetic.
namespace periscope::theory {

/// {centre + axes∘u + e : ‖u‖₂ ≤ 1, |e| ≤ error}; with `centred` also Σu = 0, as after LayerNorm. Axes may be negative.
struct Ellipsoid {
  Vector centre;
  Vector axes;
  Vector error;  ///< ≥ 0
  bool centred = false;
};

/// Returns an ellipsoid with error 0.
Ellipsoid ellipsoid_around(const Vector& centre, const Vector& axes, bool centred = false);

/// All x [n] with low ≤ x ≤ high that, if `ellipsoid` is set, also lie in the ellipsoid. Convex.
struct BoundedSet {
  Vector low;
  Vector high;
  std::optional<Ellipsoid> ellipsoid = {};

  [[nodiscard]] Index size() const { return low.size(); }
  /// Returns max |x_k| of every feature.
  [[nodiscard]] Vector magnitude() const { return low.cwiseAbs().cwiseMax(high.cwiseAbs()); }
  /// Returns a bound on ‖x‖₂.
  [[nodiscard]] double norm() const;
};

/// Returns the set |x_k| ≤ m_k, ‖x‖₂ ≤ radius.
BoundedSet ball(const Vector& m, double radius);
/// Returns the set that contains only x.
BoundedSet point(const Vector& x);
/// Returns the set of all x [n].
BoundedSet unbounded(Index n);

/// Removes invalid bounds: NaN, low = ∞, high = −∞, and ellipsoids that are not finite.
BoundedSet cleaned(BoundedSet x);

/// Returns the set of x + e with |e_k| ≤ error_k.
BoundedSet widened(BoundedSet x, const Vector& error);

/// Returns the set of x + b.
BoundedSet shifted(BoundedSet x, const Vector& b);

/// Returns g(m) = m/√(m²/f + ε) ≤ √f, rounded up. Computed as √f·m/hypot(m, √(fε)), which cannot overflow or underflow.
double normalised_magnitude(double m, double features, double eps);

/// Parameters of a norm; an empty bias means 0. alpha is used by pointwise norms only.
struct NormBound {
  NormKind kind;
  double eps;
  Vector gain;
  Vector bias;
  double alpha = 1.0;
};

/// Image under a norm (T2). RMSNorm: y = β + γ∘x̂ with ‖x̂‖ ≤ √D·t, t = R/√(R² + Dε), R ≥ ‖x‖, and |x̂_k| ≤ g(|x_k|),
/// g(m) = m/√(m²/D + ε). LayerNorm: the same for x − mean, with g(m) = m/√(m²/(D−1) + ε), and Σ x̂ = 0. L2 norm:
/// RMSNorm with gain γ/√D and with ε/D for ε. Pointwise norms: theory/norms/norm_set.h.
BoundedSet normalised(const BoundedSet& x, const NormBound& norm);

/// Returns a box that contains x minus its mean.
BoundedSet without_mean(const BoundedSet& x);

/// Image W x, and for every row a bound on Σ_j |W_kj||x_j|, which also bounds every partial sum in any order.
struct LinearImage {
  BoundedSet set;
  Vector absolute;
};

/// Image under a matrix. A row's bound is the smaller of two: the interval sum over the box, and
/// w·c ± (‖w∘axes‖ + |w|·error) over the ellipsoid (for `centred`, w∘axes minus its mean). Σ|w||x| is bounded by
/// |w|·|x| over the box and ‖w∘axes‖ + |w|·(|c| + error) over the ellipsoid. Returns no ellipsoid: see axes_image.
LinearImage image_and_sums(const RowMatrix& w, const BoundedSet& x);

/// A matrix M for the image of an ellipsoid, W·(centre + e) + M·u, and a bound on the 2-norm of M's rounding error.
struct AxesImage {
  RowMatrix matrix;
  double error = 0.0;
};

/// Returns W diag(axes), minus the mean of every row if the ellipsoid is centred.
AxesImage axes_image(const RowMatrix& w, const Ellipsoid& ellipsoid);

/// W·centre, and an elementwise bound on its rounding error plus |W·e|.
struct Centre {
  Vector value;
  Vector error;
};
Centre centre_of(const RowMatrix& w, const Ellipsoid& ellipsoid);

/// Returns a set that contains alpha·x + beta·y for any x and y in the sets. Ellipsoids: sums of a∘u and b∘v lie in the
/// ellipsoid with axes √((s+t)(a²/s + b²/t)), s = ‖a‖, t = ‖b‖ (Cauchy–Schwarz on every support function).
BoundedSet weighted_sum(double alpha, const BoundedSet& x, double beta, const BoundedSet& y);

/// Returns the set of k·x.
BoundedSet scaled(double k, const BoundedSet& x);

/// Intersects the box of x with `box`; keeps the ellipsoid of x.
BoundedSet intersected(const BoundedSet& x, const BoundedSet& box);

/// Image under an activation φ. Each φ has at most one minimum, left of which it decreases, so interval ends determine
/// the image. φ(x) lies between 0 and x, so the image also lies in the ball of radius ‖x‖.
BoundedSet activated(Activation activation, const BoundedSet& x);

/// Returns the elementwise interval product x·y.
BoundedSet interval_product(const BoundedSet& x, const BoundedSet& y);

/// Image under cap·tanh(x/cap).
BoundedSet soft_capped(double cap, const BoundedSet& x);

}  // namespace periscope::theory
