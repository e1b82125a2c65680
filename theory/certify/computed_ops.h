#pragma once

#include <map>

#include "sim/numerics/number_format.h"
#include "theory/certify/bounded_set.h"
#include "theory/certify/signal.h"

namespace periscope::theory {

/// The image of a set under a linear map, or φ, and how far the result may be from that of exact arithmetic.
struct ComputedImage {
  BoundedSet set;
  Vector error;
};

/// W x + b for x in an ellipsoid: the image, and as W·centre + b + (this matrix)·u + e with |e| ≤ centre.error.
struct Mapped {
  BoundedSet image;
  Centre centre;
  MatrixOver over;
};

/// Σ of one query's attention weights, as they were computed.
struct WeightSum {
  double low = 1.0;
  double high = 1.0;
};

/// The ops of a run in some arithmetic, on sets (T24): each returns a superset of what the run can compute and keeps
/// the largest magnitude of what it stores or sums on the way. Every elementary operation rounds to nearest, with
/// gradual underflow: fl(t) = t(1+δ) + e, |δ| ≤ u, |e| ≤ η/2 (sums of two never underflow). Exact arithmetic has
/// u = η = 0.
class ComputedOps {
 public:
  /// Attention reads at most `longest` tokens.
  ComputedOps(const RunArithmetic& arithmetic, Index longest);

  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] double largest_stored() const { return exact_ ? infinity : arithmetic_.stored.largest; }
  /// x rounded to the stored format, infinite where it overflows. Rounding is monotone: |y| ≤ x stores as at most this.
  [[nodiscard]] double rounded(double x) const;

  /// x rounded to the stored format. Axes grow by 1 + u, since rounding x multiplies every u_k by 1 + δ_k; what centre
  /// and errors lose is added to the error.
  [[nodiscard]] BoundedSet stored(BoundedSet x) const;
  /// W x + b. The sum of n products is off by at most κΣ|w||x| + nη'(1+(n−1)u'), κ = u' + (n−1)u'(1+u'): products round
  /// once, and any order of additions adds (n−1)u' times their magnitudes (Rump; Jeannerod and Rump 2013).
  BoundedSet linear(const RowMatrix& w, const Vector& bias, const BoundedSet& x);
  /// Adds the rounding of sums to an image of exact arithmetic that is already there, `n` products a row.
  ComputedImage summed(LinearImage image, Index n, const Vector& bias);
  /// linear, with what it does to x's ellipsoid; the image has one of its own (a ball).
  Mapped mapped(const RowMatrix& w, const Vector& bias, const BoundedSet& x);
  /// T2. docs/theory/certificates.md derives the bounds of a computed norm.
  BoundedSet normalised(const BoundedSet& x, const NormBound& norm);
  /// σ(x) = 1/(1 + e^−x), feature by feature: in [0, 1] in every arithmetic.
  [[nodiscard]] BoundedSet sigmoid(const BoundedSet& x) const;
  /// The same of a pointwise norm (theory/norms/norm_set.cpp).
  BoundedSet pointwise_normalised(const BoundedSet& x, const NormBound& norm);
  BoundedSet scaled(double k, const BoundedSet& x);
  BoundedSet weighted_sum(double alpha, const BoundedSet& x, double beta, const BoundedSet& y);
  /// Returns how far k·x of these magnitudes may be off: k rounded, then the product.
  [[nodiscard]] Vector rounded_twice(const Vector& magnitude) const {
    return (magnitude.array() * (3.0 * u_ + 2.0 * eta_) + 3.0 * eta_ + underflow(0)).matrix();
  }
  /// A bound on ‖x‖₁ of n features after rounding.
  [[nodiscard]] double stored_sum(double sum, Index n) const {
    return outward(sum * (1.0 + u_) + static_cast<double>(n) * eta_);
  }
  /// φ to within 8u'|x| + η', an allowance for three to six rounded steps. The tanh form of GELU, x/2·(1 + tanh t), may
  /// store each step: to within 8u|x| + 4η. t is off by 6u|t|, so tanh t by 6u·max|t|(1 − tanh²t) ≤ 2.7u and its own
  /// rounding, 1 + tanh t by 5u, φ by 2.5u|x| and two roundings; η inside t counts less than η|x|.
  ComputedImage activated(Activation activation, const BoundedSet& x);
  BoundedSet soft_capped(double cap, const BoundedSet& x);
  /// Over at most `seen` tokens (0: all): weights ê_i/Σ̂ê. Errors of ê cancel; the denominator is at least
  /// Σê/(1+(n−1)u'), as an addition of positive numbers is off by at most u' times its result and no partial result
  /// exceeds the last.
  WeightSum attention_weights(Index seen);
  /// Σ ŵ_i v_i for such weights and any v_i of the set.
  ComputedImage weighted_values(const WeightSum& weights, Index seen, const BoundedSet& v);
  /// Angles are any, as RoPE's are; x is rotated by rounded sines and cosines: how far a pair's results may be off,
  /// given their magnitudes' sum.
  [[nodiscard]] double rotation_error(double sum) const { return exact_ ? 0.0 : outward(4.0 * u_ * sum + 4.0 * eta_); }
  /// q·k and its scale and soft cap, from |q·k| of exact arithmetic, ‖q‖ and ‖k‖; returns the score. It holds for runs
  /// that scale q·k and for those that store scaled queries first (OPT): (s·q)·k is off by Σ(3us|q_i| + 2η|q_i| +
  /// η)|k_i|.
  struct Score {
    double dot;
    double cap_input;  ///< NaN without soft cap
    double score;
  };
  Score score(double dot, double query, double key, Index n, double scale, double soft_cap);

  /// Keeps the largest magnitude that was noted for this signal.
  void note(Signal signal, double magnitude);
  /// Returns what was kept and clears it.
  std::map<Signal, double> take_notes();

 private:
  /// |z/cap| as it is stored, for a cap that may be rounded first; infinite if that leaves none.
  [[nodiscard]] double cap_input(double z, double cap) const;
  /// κ and the floor of a sum of n products.
  [[nodiscard]] double sum_factor(Index n) const;
  [[nodiscard]] double sum_floor(Index n) const;

  RunArithmetic arithmetic_;
  Index longest_;
  bool exact_;
  double u_ = 0.0, eta_ = 0.0;          ///< of what is stored
  double sum_u_ = 0.0, sum_eta_ = 0.0;  ///< of what is accumulated: u', η'
  std::map<Signal, double> notes_;
};

}  // namespace periscope::theory
