#pragma once

#include <cstdint>
#include <vector>

#include "sim/spec/model_spec.h"
#include "theory/attention/share_done.h"
#include "theory/kernels/gaussian.h"
#include "theory/kernels/normal_stream.h"

namespace periscope::theory {

/// The law of queries or of keys.
struct ProjectionLaw {
  double variance;    ///< σ² D: variance of an entry per unit of the kernel's diagonal
  int heads;          ///< for QK-norm over the whole projection
  double bias = 0.0;  ///< standard deviation of the biases' entries, which are the same for every token
  /// Gains of QK-norm (gain_of), of head_dim features or of those of all heads. Empty: 1.
  std::vector<double> gain = {};
  /// Rows of the matrix (T29): factors of the features of all heads, before biases. Empty: 1.
  std::vector<double> rows = {};
};

/// The law of one head's attention pattern A = softmax(z) over T tokens (T3).
struct PatternLaw {
  ProjectionLaw query, key;
  int head_dim;
  QkNorm qk_norm;
  double norm_eps;
  bool rope;
  bool causal;
  ScoreRule scores = {};                      ///< factor, soft cap and window of the logits
  std::vector<double> rope_frequencies = {};  ///< as in AttentionRule; empty: base 10000
  /// Probabilities of drawing each query head, up to a factor: its share of the module's output. Empty: all equal.
  std::vector<double> head_weights = {};
  int sequence = 0;  ///< length of each of several sequences that do not attend to each other; 0: one sequence

  /// Factor on q·k.
  [[nodiscard]] double scale() const;
  /// Returns the position of token t in its sequence.
  [[nodiscard]] Index position(Index t) const { return sequence > 0 ? t % sequence : t; }
  /// The first token that token t sees, and the one after the last, of `tokens` in all.
  [[nodiscard]] Index first_seen(Index t) const;
  [[nodiscard]] Index end_seen(Index t, Index tokens) const;
};

/// Names the random numbers of one average: its replicate and its sublayer.
struct PatternStream {
  std::uint64_t seed;
  std::uint64_t replicate;
  std::uint64_t sublayer;
  const OnWork* on_work = nullptr;  ///< null, or receives the number of patterns averaged
};

/// Samples are float: their rounding is far below their spread, and they take most of the time.
using Sample = Eigen::MatrixXf;

/// The random numbers of a stream; none of them is one of T25's chain.
NormalStream numbers_of(PatternStream stream);

/// The largest diagonal entry of a kernel; 1 where that is no positive finite number, so that the signal passes
/// unscaled.
double scale_of(const Matrix& k);

/// A kernel brought to the range of float: `unit` has a largest diagonal entry of 1, k = scale · unit.
struct ScaledKernel {
  explicit ScaledKernel(const Matrix& k);
  double scale;
  Sample unit;
  Sample unit_factor;  ///< F Fᵀ = unit
  bool triangular;     ///< F is lower triangular: always, but where tokens repeat
};

/// k = mean + ρ1ᵀ + 1ρᵀ + scale·unit. Softmax's Jacobian leaves of k only `unit`, J_t (k + a 1ᵀ + 1 bᵀ) J_t'ᵀ =
/// J_t k J_t'ᵀ, so the common part is subtracted before k is rounded to float.
struct CentredKernel {
  /// `scale_of_k`: as scale_of has it.
  CentredKernel(const Matrix& k, double scale_of_k);
  double scale;
  double mean;       ///< of all entries
  Vector deviation;  ///< ρ: a row's mean less that of all [T]
  Sample unit;       ///< rows and columns sum to 0; exactly 0 for tokens that are all alike [T, T]
  [[nodiscard]] bool vanishes() const { return unit.size() == 0 || unit.cwiseAbs().maxCoeff() == 0.0F; }
  /// A k Aᵀ for a pattern A, the kernel of a head's output where k is that of its values, from A·unit·Aᵀ [T, T]; exact
  /// for tokens that are all alike.
  [[nodiscard]] Matrix output_kernel(const Sample& a, const Sample& of_unit) const;
};

/// RoPE's cosines and sines of tokens at some positions [T, e/2].
struct Rotation {
  Sample cos, sin;

  Rotation() = default;
  Rotation(const std::vector<Index>& positions, const std::vector<double>& frequencies);
  /// Turns every row of x by its position's angles, or back with direction −1.
  [[nodiscard]] Sample turned(const Sample& x, float direction) const;
};

/// Queries or keys of one head over all tokens.
struct Projection {
  Sample rotated;       ///< what enters the logits [T, head_dim]
  Sample normalised;    ///< before RoPE [T, head_dim]
  Eigen::VectorXf rms;  ///< what QK-norm divided by [T], 1 without it
};

/// One head's queries and keys. (q, k) and (−q, k) are equally likely, so a sample serves two patterns, of `logits` and
/// of −logits, between which odd terms cancel: the large ones where tokens are nearly equal.
struct HeadSample {
  Projection query, key;
  Sample logits;  ///< scale·q kᵀ, before a soft cap [T, T]
};

/// One head of a law over T tokens: draws queries and keys, softmax patterns, and takes gradients back.
class AttentionHead {
 public:
  AttentionHead(const PatternLaw& law, Index tokens);
  /// A head over tokens at these positions of one sequence.
  AttentionHead(const PatternLaw& law, const std::vector<Index>& positions);

  /// Draws queries and keys: rows from Gaussian processes over tokens with covariances of_query and of_key, each times
  /// its law's variance, plus the biases. Where heads have gains of their own, a head is drawn first.
  [[nodiscard]] HeadSample draw(NormalStream& numbers, const ScaledKernel& of_query, const ScaledKernel& of_key) const;

  /// Projects rows of variance `unit` [T] to a head's queries or keys, as `law` says: scaled by its variance and
  /// `scale`, with bias, QK-norm and RoPE. `head` selects the gains and rows.
  [[nodiscard]] Projection project(const ProjectionLaw& law, Sample rows, double scale, const Vector& unit,
                                   NormalStream& numbers, int head = 0) const;

  /// softmax(z), masked, of the logits z = sign·logits or, under a soft cap c, c·tanh(sign·logits/c) [T, T].
  [[nodiscard]] Sample pattern(const HeadSample& head, float sign = 1.0F) const;
  /// ∂z/∂(q kᵀ), elementwise: scale·(1 − tanh²(logits/c)) [T, T].
  [[nodiscard]] Sample logit_derivative(const HeadSample& head) const;
  /// The gradient with respect to the un-normalised, un-rotated projection, from that of `rotated`. Under
  /// QK-norm over the whole projection the other heads' share of the projection is left out: O(1/heads).
  [[nodiscard]] Sample pull_back(const Projection& projection, const Sample& gradient, int heads) const;

 private:
  PatternLaw law_;
  Rotation rotation_;  // empty without RoPE
};

}  // namespace periscope::theory
