#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/numerics/number_format.h"
#include "sim/spec/weight.h"
#include "theory/certify/bounded_set.h"
#include "theory/certify/signal.h"

namespace periscope::theory {

/// Computed image of a set, and an elementwise bound on its difference from exact arithmetic.
struct ComputedImage {
  BoundedSet set;
  Vector error;
};

/// Image of an ellipsoid under W x + b, also as W·centre + b + axes.matrix·u + e with |e| ≤ centre.error.
struct Mapped {
  BoundedSet image;
  Centre centre;
  AxesImage axes;
};

/// Range of the computed sum of one query's attention weights.
struct WeightSum {
  double low = 1.0;
  double high = 1.0;
};

/// Sums Σ_j w_j x_j of a product: of a matrix with its input, of queries with keys (x: the query), or of attention
/// weights with values (x: the values).
struct ProductBound {
  std::string_view name;  ///< name of the matrix, "dots" or "mixed"
  int sublayer = -1;
  Index terms = 0;        ///< number of products in a sum
  double absolute = 0.0;  ///< bound on Σ|w_j||x_j|
  double weights = 0.0;   ///< bound on Σ|w_j|

  /// Returns a bound on every partial sum that is accumulated in `format`, in any order, if x is multiplied by 2^−shift
  /// and rounded to the format.
  [[nodiscard]] double sums_in(const NumberFormat& format, int shift = 0) const;
  /// Returns x in words: "the input", "queries" or "values".
  [[nodiscard]] std::string_view operand() const;
  /// Returns the smallest shift ≥ 0 with which no partial sum overflows; nullopt if there is none.
  [[nodiscard]] std::optional<int> curing_shift(const NumberFormat& format) const;
};

/// Operations of a run in a given arithmetic, applied to sets (T24). Each returns a superset of the computed results
/// and records the largest magnitude of its intermediate values. Every elementary operation rounds to nearest, with
/// gradual underflow: fl(t) = t(1+δ) + e, |δ| ≤ u, |e| ≤ η/2; additions never underflow. Exact arithmetic: u = η = 0.
class ComputedOps {
 public:
  /// Attention reads at most `longest` tokens. Keys and values are rounded to any of the formats `cached`.
  ComputedOps(const RunArithmetic& arithmetic, Index longest, const std::vector<NumberFormat>& cached = {});

  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] double largest_stored() const { return exact_ ? infinity : arithmetic_.stored.largest; }
  /// Returns x rounded to the stored format, infinite on overflow. Also bounds the rounded value of any |y| ≤ x.
  [[nodiscard]] double rounded(double x) const;

  /// Rounds x to the stored format. Rounding multiplies u_k by 1 + δ_k, so axes grow by 1 + u; the rounding of centre
  /// and error is added to the error.
  [[nodiscard]] BoundedSet stored(BoundedSet x) const;
  /// Adds the rounding of keys or values to the cache's format.
  [[nodiscard]] ComputedImage cached(ComputedImage x) const;
  /// Returns the 2-norm of the error of `cached` for n features of 2-norm r.
  [[nodiscard]] double cache_error(double r, Index n) const {
    return cache_u_ == 0.0 ? 0.0 : outward(cache_u_ * r + cache_eta_ * std::sqrt(static_cast<double>(n)));
  }
  /// W x + b. A sum of n products has error at most κΣ|w||x| + nη'(1+(n−1)u'), κ = u' + (n−1)u'(1+u'): each product
  /// rounds once, and additions in any order add (n−1)u' times the magnitudes (Rump; Jeannerod and Rump 2013).
  BoundedSet linear(Weight weight, const RowMatrix& w, const Vector& bias, const BoundedSet& x);
  /// Adds the rounding of sums to an image under W in exact arithmetic.
  ComputedImage summed(Weight weight, const RowMatrix& w, LinearImage image, const Vector& bias);
  /// Same as `linear`, but also maps the ellipsoid of x. The ellipsoid of the image is a ball.
  Mapped mapped(Weight weight, const RowMatrix& w, const Vector& bias, const BoundedSet& x);
  /// Norm (T2). docs/theory/certificates.md derives the bounds of a computed norm.
  BoundedSet normalised(const BoundedSet& x, const NormBound& norm);
  /// σ(x) = 1/(1 + e^−x) elementwise, within [0, 1] in every arithmetic.
  [[nodiscard]] BoundedSet sigmoid(const BoundedSet& x) const;
  /// Pointwise norm, defined in theory/norms/norm_set.cpp.
  BoundedSet pointwise_normalised(const BoundedSet& x, const NormBound& norm);
  BoundedSet scaled(double k, const BoundedSet& x);
  BoundedSet weighted_sum(double alpha, const BoundedSet& x, double beta, const BoundedSet& y);
  /// Returns the error of k·x for products of the given magnitudes, where k and the product are rounded.
  [[nodiscard]] Vector rounded_twice(const Vector& magnitude) const {
    return (magnitude.array() * (3.0 * u_ + 2.0 * eta_) + 3.0 * eta_ + underflow(0)).matrix();
  }
  /// Returns a bound on ‖x‖₁ of n features after rounding, given the bound `sum` before rounding.
  [[nodiscard]] double stored_sum(double sum, Index n) const {
    return outward(sum * (1.0 + u_) + static_cast<double>(n) * eta_);
  }
  /// Activation φ with error at most 8u'|x| + η', which covers three to six rounded steps. The tanh form of GELU,
  /// x/2·(1 + tanh t), may store each step and has error at most 8u|x| + 4η. Its t has error 6u|t|; tanh t has error
  /// 6u·max|t|(1 − tanh²t) ≤ 2.7u plus its rounding; 1 + tanh t has 5u; φ has 2.5u|x| plus two roundings. An η in t
  /// contributes less than η|x|.
  ComputedImage activated(Activation activation, const BoundedSet& x);
  BoundedSet soft_capped(double cap, const BoundedSet& x);
  /// Returns the range of Σ_i ê_i/Σ̂ê over at most `seen` tokens (0: all), with computed exponentials ê, whose errors
  /// cancel. The computed sum Σ̂ê is at least Σê/(1+(n−1)u'): every addition has error at most u' times the total.
  WeightSum attention_weights(Index seen);
  /// Σ ŵ_i v_i for computed attention weights ŵ and any v_i in the set.
  ComputedImage weighted_values(const WeightSum& weights, Index seen, const BoundedSet& v);
  /// Returns the error of a rotated pair of features, given the sum of their magnitudes, for rounded sines and cosines.
  [[nodiscard]] double rotation_error(double sum) const { return exact_ ? 0.0 : outward(4.0 * u_ * sum + 4.0 * eta_); }
  /// Σ p̂_e x_e over the chosen experts of a mixture, for computed expert weights p̂ and any x_e in the set. Returns a
  /// box. Router logits are at most `logit`. docs/theory/certificates.md derives the range of Σ p̂_e.
  BoundedSet mixed_experts(const ExpertSpec& experts, double logit, const BoundedSet& x);
  struct Score {
    double dot;
    double cap_input;  ///< NaN without a soft cap
    double score;
  };
  /// Bounds q·k and its scaled and soft-capped values, given bounds on |q·k| in exact arithmetic, ‖q‖ and ‖k‖. Covers
  /// runs that scale q·k and runs that store scaled queries (OPT): (s·q)·k has error Σ(3us|q_i| + 2η|q_i| + η)|k_i|.
  Score score(double dot, double query, double key, Index n, double scale, double soft_cap);

  /// Records a magnitude; the largest one per signal is stored.
  void record(Signal signal, double magnitude);
  /// Returns the recorded maxima and clears them.
  std::map<Signal, double> take_maxima();
  /// Returns the largest sums of every product since the last call.
  std::vector<ProductBound> take_products();

 private:
  void record(const ProductBound& product);
  /// Range of the sum of n computed softmax weights.
  WeightSum softmax_sum(double n);
  /// Returns Σ w_i v_i for any v_i in the set. `relative` and `absolute` bound the error of the sum. Partial sums
  /// are recorded under the signal `partial`.
  ComputedImage averaged(const WeightSum& weights, const BoundedSet& v, double relative, double absolute,
                         Signal partial);
  /// Returns a bound on the stored |z/cap|, for a cap that may be rounded first; infinite if it rounds to 0 or ∞.
  [[nodiscard]] double cap_input(double z, double cap) const;
  /// Relative factor κ and absolute underflow error of a sum of n products.
  [[nodiscard]] double sum_factor(Index n) const;
  [[nodiscard]] double sum_underflow(Index n) const;

  RunArithmetic arithmetic_;
  Index longest_;
  bool exact_;
  double u_ = 0.0, eta_ = 0.0;              ///< unit roundoff and smallest subnormal of the stored format
  double sum_u_ = 0.0, sum_eta_ = 0.0;      ///< u' and η' of the accumulation format
  double cache_u_ = 0.0, cache_eta_ = 0.0;  ///< of the cache's format; 0 if it is the stored format
  std::map<Signal, double> maxima_;
  std::vector<ProductBound> products_;
};

}  // namespace periscope::theory
