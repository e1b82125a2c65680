#pragma once

#include <Random123/threefry.h>
#include <Random123/conventional/Engine.hpp>

#include <cstdint>
#include <vector>

#include "sim/spec/model_spec.h"
#include "theory/gaussian.h"

namespace periscope::theory {

/// The law of one head's attention pattern A = softmax(z) over T tokens (T3).
struct PatternLaw {
  double query_variance;  ///< σ_q² D: variance of a query entry per unit of the kernel's diagonal
  double key_variance;    ///< σ_k² D
  int head_dim;
  int query_heads;  ///< for QK-norm over the whole projection
  int key_heads;
  QkNorm qk_norm;
  double norm_eps;
  bool rope;
  bool causal;
  ScoreRule scores = {};                      ///< factor, soft cap and window of the logits
  std::vector<double> rope_frequencies = {};  ///< as in AttentionRule; empty: base 10000

  /// Factor on q·k.
  [[nodiscard]] double scale() const;
  /// The first token that token t sees.
  [[nodiscard]] Eigen::Index first_seen(Eigen::Index t) const;
};

/// Names the random numbers of one average: its replicate and its sublayer.
struct PatternStream {
  std::uint64_t seed;
  std::uint64_t replicate;
  std::uint64_t sublayer;
};

/// Samples are float: their rounding is far below their own spread, and they are most of the work.
using Sample = Eigen::MatrixXf;
using PatternEngine = r123::Engine<r123::Threefry4x64>;

PatternEngine engine_of(PatternStream stream);

/// Independent standard normal numbers.
Sample white_noise(PatternEngine& engine, Eigen::Index rows, Eigen::Index cols);

/// F with F Fᵀ = k, for a positive semidefinite k (tokens may repeat: k may be singular).
Matrix factor(const Matrix& k);

/// A kernel brought to the range of float: `unit` has a largest diagonal entry of 1, k = scale · unit.
struct ScaledKernel {
  explicit ScaledKernel(const Matrix& k);
  double scale;
  Sample unit;
  Sample unit_factor;  ///< F Fᵀ = unit
};

/// Queries or keys of one head over all tokens.
struct Projection {
  Sample rotated;       ///< what enters the logits [T, head_dim]
  Sample normalised;    ///< before RoPE [T, head_dim]
  Eigen::VectorXf rms;  ///< what QK-norm divided by [T], 1 without it
};

/// One head of a law over T tokens: draws queries and keys, softmax patterns, and takes gradients back.
class AttentionHead {
 public:
  AttentionHead(const PatternLaw& law, Eigen::Index tokens);

  /// Rows from a Gaussian process over tokens with covariance `variance`·k; `heads` in the whole projection.
  [[nodiscard]] Projection draw(PatternEngine& engine, const ScaledKernel& k, double variance, int heads) const;
  /// Queries with query_variance, keys with key_variance.
  [[nodiscard]] Projection draw_query(PatternEngine& engine, const ScaledKernel& k) const;
  [[nodiscard]] Projection draw_key(PatternEngine& engine, const ScaledKernel& k) const;

  /// softmax(z), masked, of the logits z = scale·q kᵀ or, under a soft cap c, c·tanh(scale·q kᵀ/c) [T, T].
  [[nodiscard]] Sample pattern(const Projection& query, const Projection& key) const;
  /// ∂z/∂(q kᵀ), elementwise: scale·(1 − tanh²(scale·q kᵀ/c)) [T, T].
  [[nodiscard]] Sample logit_slope(const Projection& query, const Projection& key) const;
  /// The gradient with respect to the un-normalised, un-rotated projection, from that of `rotated`. Under
  /// QK-norm over the whole projection the other heads' share of the projection is left out: O(1/heads).
  [[nodiscard]] Sample pull_back(const Projection& projection, const Sample& gradient, int heads) const;

 private:
  PatternLaw law_;
  Sample cos_;  // RoPE, [T, head_dim/2]
  Sample sin_;
};

}  // namespace periscope::theory
