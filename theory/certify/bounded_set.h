#pragma once

#include <optional>

#include "sim/spec/model_spec.h"
#include "theory/certify/outward.h"
#include "theory/certify/spectral_norm.h"

/// Sets that hold every value that a signal of one token can take, and their images under the parts of a stack
/// (T17, T24; docs/theory/certificates.md has the proofs). Every function returns a superset of the true image of exact
/// arithmetic: bounds are rounded outwards by what double arithmetic may have lost, and a bound that could not be
/// computed (NaN) is none. What a run's own arithmetic adds is computed_ops.h's business.
namespace periscope::theory {

/// {centre + axes∘u + e : ‖u‖₂ ≤ 1, |e| ≤ error}, and with `centred` also Σu = 0 (what LayerNorm leaves). Axes may be
/// negative.
struct Ellipsoid {
  Vector centre;
  Vector axes;
  Vector error;  ///< of every feature, ≥ 0
  bool centred = false;
};

/// Without error.
Ellipsoid ellipsoid_around(const Vector& centre, const Vector& axes, bool centred = false);

/// All x [n] with low ≤ x ≤ high that also lie in the ellipsoid, if there is one. Convex.
struct BoundedSet {
  Vector low;
  Vector high;
  std::optional<Ellipsoid> ellipsoid = {};

  [[nodiscard]] Index size() const { return low.size(); }
  /// max |x_k| of every feature.
  [[nodiscard]] Vector magnitude() const { return low.cwiseAbs().cwiseMax(high.cwiseAbs()); }
  /// A bound on ‖x‖₂.
  [[nodiscard]] double norm() const;
};

/// |x_k| ≤ m_k, and ‖x‖₂ ≤ radius.
BoundedSet ball(const Vector& m, double radius);
/// The one point.
BoundedSet point(const Vector& x);
/// Every x [n].
BoundedSet unbounded(Index n);

/// x with NaN, or a bound beyond all numbers, replaced by no bound.
BoundedSet cleaned(BoundedSet x);

/// x + e for any |e_k| ≤ error_k.
BoundedSet widened(BoundedSet x, const Vector& error);

/// x + b.
BoundedSet shifted(BoundedSet x, const Vector& b);

/// g(m) = m/√(m²/f + ε) ≤ √f, computed as √f·m/hypot(m, √(fε)), which overflows and underflows nowhere; rounded up.
double normalised_magnitude(double m, double features, double eps);

/// Gain [n/groups] and bias of a norm that treats `groups` parts of a signal one by one; an empty bias is none. alpha
/// counts where the kind has one.
struct NormBound {
  NormKind kind;
  double eps;
  Vector gain;
  Vector bias;
  double alpha = 1.0;
};

/// T2 on the whole of x. L2 norm: RMSNorm of gain γ/√D and ε/D. Pointwise norms: theory/norms/norm_set.h. RMSNorm: y =
/// β + γ∘x̂ with ‖x̂‖ ≤ √D·t, t = R/√(R² + Dε), R ≥ ‖x‖, and |x̂_k| ≤ g(|x_k|), g(m) = m/√(m²/D + ε). LayerNorm: the same
/// of x − mean, with g(m) = m/√(m²/(D−1) + ε), and Σ x̂ = 0.
BoundedSet normalised(const BoundedSet& x, const NormBound& norm);

/// The box of x minus its mean.
BoundedSet without_mean(const BoundedSet& x);

/// W x, and for every row a bound on Σ_j |W_kj||x_j|, which no partial sum of its products passes, whatever the order.
struct LinearImage {
  BoundedSet set;
  Vector absolute;
};

/// A row's bound is the smaller of two: Σ_j over the box, and w·c ± (‖w∘axes‖ + |w|·error) over the ellipsoid (w∘axes
/// without its mean if that is centred); Σ|w||x| ≤ |w|·|x| over the box, ≤ ‖w∘axes‖ + |w|·(|c| + error) over the
/// ellipsoid. The image has no ellipsoid: see matrix_over.
LinearImage image_and_sums(const RowMatrix& w, const BoundedSet& x);

/// The image of an ellipsoid's u under W, and a bound on the 2-norm (so on every row) of what rounding took from it.
struct MatrixOver {
  RowMatrix matrix;
  double lost = 0.0;
};

/// W diag(axes), rows without their mean if the ellipsoid is centred: its image is W·(centre + e) + this·u.
MatrixOver matrix_over(const RowMatrix& w, const Ellipsoid& ellipsoid);

/// W·centre, and a bound on what rounding took and W·e adds, feature by feature.
struct Centre {
  Vector value;
  Vector error;
};
Centre centre_of(const RowMatrix& w, const Ellipsoid& ellipsoid);

/// alpha·x + beta·y for x, y that may be anything in their sets. Ellipsoids: a sum of a∘u and b∘v lies in that of
/// axes √((s+t)(a²/s + b²/t)), s = ‖a‖, t = ‖b‖ (Cauchy–Schwarz on every support function).
BoundedSet weighted_sum(double alpha, const BoundedSet& x, double beta, const BoundedSet& y);

/// k·x.
BoundedSet scaled(double k, const BoundedSet& x);

/// Returns the part of x that lies in both boxes, with the ellipsoid of x.
BoundedSet within(const BoundedSet& x, const BoundedSet& box);

/// φ(x): each φ falls, if at all, only left of one minimum, so an interval's image is found from its ends. Since φ(x)
/// lies between 0 and x, the image also lies in the ball of x's norm.
BoundedSet activated(Activation activation, const BoundedSet& x);

/// x·y feature by feature, as intervals.
BoundedSet interval_product(const BoundedSet& x, const BoundedSet& y);

/// cap·tanh(x/cap).
BoundedSet soft_capped(double cap, const BoundedSet& x);

}  // namespace periscope::theory
