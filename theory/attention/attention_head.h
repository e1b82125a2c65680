#pragma once

#include <cstdint>
#include <vector>

#include "sim/spec/model_spec.h"
#include "theory/attention/prediction_progress.h"
#include "theory/kernels/gaussian.h"
#include "theory/kernels/normal_stream.h"

namespace periscope::theory {

/// Distribution of queries or of keys.
struct ProjectionLaw {
  double variance;    ///< σ² D: variance of an entry per unit of the kernel's diagonal
  int heads;          ///< number of heads, needed by QK-norm over the whole projection
  double bias = 0.0;  ///< standard deviation of the bias entries, which are the same for every token
  /// QK-norm gains, one per feature of a head or, for QK-norm over the whole projection, of all heads. Empty: 1.
  std::vector<double> gain = {};
  /// Row factors of the projection matrix (T29), one per feature of all heads, applied before the bias. Empty: 1.
  std::vector<double> rows = {};
};

/// Distribution of one head's attention pattern A = softmax(z) over T tokens (T3).
struct PatternLaw {
  ProjectionLaw query, key;
  int head_dim;
  QkNorm qk_norm;
  double norm_eps;
  bool rope;
  bool causal;
  ScoreRule scores = {};                      ///< scale, soft cap and window of the logits
  std::vector<double> rope_frequencies = {};  ///< as in AttentionRule; empty: base 10000
  std::vector<double> rope_gains = {};        ///< factor of every pair of queries and keys; empty: 1
  /// Unnormalised probability of drawing each query head: its share of the module's output. Empty: all equal.
  std::vector<double> head_weights = {};
  int sequence = 0;  ///< length of each concatenated sequence; 0: the tokens form a single sequence

  /// Returns the factor that multiplies q·k.
  [[nodiscard]] double scale() const;
  /// Returns the position of token t in its sequence.
  [[nodiscard]] Index position(Index t) const { return sequence > 0 ? t % sequence : t; }
  /// Token t attends to tokens first_seen(t) … end_seen(t) − 1, out of `tokens` in total.
  [[nodiscard]] Index first_seen(Index t) const;
  [[nodiscard]] Index end_seen(Index t, Index tokens) const;
};

/// Key of the random-number stream of one pattern average.
struct PatternStream {
  std::uint64_t seed;
  std::uint64_t replicate;
  std::uint64_t sublayer;
  const OnWork* on_work = nullptr;  ///< receives the number of averaged patterns; may be null
};

/// A sampled matrix. Samples dominate the cost; float suffices, because its rounding error is far below their spread.
using Sample = Eigen::MatrixXf;

/// Returns the random numbers of a pattern average, independent of those of the finite-width chain (T25).
NormalStream numbers_of(PatternStream stream);

/// Returns the largest diagonal entry of a kernel; 1 (no scaling) if that is not positive and finite.
double scale_of(const Matrix& k);

/// A kernel scaled to the range of float: k = scale·unit, where `unit` has a largest diagonal entry of 1.
struct ScaledKernel {
  explicit ScaledKernel(const Matrix& k);
  double scale;
  Sample unit;
  Sample unit_factor;  ///< F with F Fᵀ = unit
  bool triangular;     ///< F is lower triangular; false only if tokens repeat
};

/// The decomposition k = mean + ρ1ᵀ + 1ρᵀ + scale·unit. The Jacobian J_t of softmax removes all terms but scale·unit:
/// J_t (k + a 1ᵀ + 1 bᵀ) J_t'ᵀ = J_t k J_t'ᵀ. The other terms are therefore subtracted before rounding to float.
struct CentredKernel {
  /// `scale_of_k` is the result of scale_of(k).
  CentredKernel(const Matrix& k, double scale_of_k);
  double scale;
  double mean;       ///< mean of all entries
  Vector deviation;  ///< ρ, row means minus `mean` [T]
  Sample unit;       ///< rows and columns sum to 0; exactly 0 if all tokens are equal [T, T]
  [[nodiscard]] bool vanishes() const { return unit.size() == 0 || unit.cwiseAbs().maxCoeff() == 0.0F; }
  /// Returns A k Aᵀ, the output kernel of a head with pattern A, from `of_unit` = A·unit·Aᵀ. Exact for equal tokens.
  [[nodiscard]] Matrix output_kernel(const Sample& a, const Sample& of_unit) const;
};

/// Replaces the logits of one query by their softmax. Weights below 2e-35 are set to 0, as in AttentionHead::pattern.
void softmax_in_place(Eigen::Ref<Eigen::VectorXf> logits);

/// Cosines and sines of the RoPE angles at given positions, times the gains of the pairs [T, e/2].
struct Rotation {
  Sample cos, sin;

  Rotation() = default;
  /// Without `gains`, they are 1.
  Rotation(const std::vector<Index>& positions, const std::vector<double>& frequencies,
           const std::vector<double>& gains);
  /// Rotates every row of x by the angles of its position; direction = −1 applies the transpose.
  [[nodiscard]] Sample rotate(const Sample& x, float direction) const;
};

/// Queries or keys of one head, for all tokens.
struct Projection {
  Sample rotated;       ///< after RoPE, as used by the logits [T, head_dim]
  Sample normalised;    ///< after QK-norm, before RoPE [T, head_dim]
  Eigen::VectorXf rms;  ///< divisor of QK-norm [T]; 1 without QK-norm
};

/// Queries and keys of one head. (q, k) and (−q, k) are equally likely, so each sample gives two antithetic patterns,
/// from `logits` and −logits. Terms odd in the logits cancel; they dominate if tokens are nearly equal.
struct HeadSample {
  Projection query, key;
  Sample logits;  ///< scale·q kᵀ, before a soft cap [T, T]
};

/// One attention head over T tokens: samples queries, keys and softmax patterns, and backpropagates to projections.
class AttentionHead {
 public:
  AttentionHead(const PatternLaw& law, Index tokens);
  /// A head over tokens at the given positions of one sequence.
  AttentionHead(const PatternLaw& law, const std::vector<Index>& positions);

  /// Draws queries and keys: Gaussian processes over tokens with covariances of_query and of_key times the variances of
  /// the projections, plus biases. If heads differ in gains or row factors, a head is drawn first.
  [[nodiscard]] HeadSample draw(NormalStream& numbers, const ScaledKernel& of_query, const ScaledKernel& of_key) const;

  /// Turns Gaussian rows of variance `unit` [T] into queries or keys: multiplies them by √(law.variance·scale), then
  /// applies row factors, bias, QK-norm and RoPE. `head` selects the gains and row factors.
  [[nodiscard]] Projection project(const ProjectionLaw& law, Sample rows, double scale, const Vector& unit,
                                   NormalStream& numbers, int head = 0) const;

  /// Returns the masked softmax(z) of z = sign·logits or, with a soft cap c, z = c·tanh(sign·logits/c) [T, T].
  [[nodiscard]] Sample pattern(const HeadSample& head, float sign = 1.0F) const;
  /// Returns ∂z/∂(q kᵀ) elementwise: scale·(1 − tanh²(logits/c)) [T, T].
  [[nodiscard]] Sample logit_derivative(const HeadSample& head) const;
  /// Returns the gradient at the projection before QK-norm and RoPE, given the gradient at `rotated`. With QK-norm over
  /// the whole projection, the dependence of the divisor on other heads is neglected, an error of O(1/heads).
  [[nodiscard]] Sample pull_back(const Projection& projection, const Sample& gradient, int heads) const;

 private:
  PatternLaw law_;
  Rotation rotation_;  // empty without RoPE
};

}  // namespace periscope::theory
