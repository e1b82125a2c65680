#pragma once

#include <cstdint>

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
};

/// Names the random numbers of one average: its replicate and its sublayer.
struct PatternStream {
  std::uint64_t seed;
  std::uint64_t replicate;
  std::uint64_t sublayer;
};

/// True if the pattern is uniform for every input (σ_q σ_k = 0), so that the average below has a closed form.
bool is_uniform(const PatternLaw& law);

/// The pattern of σ_q σ_k = 0: A_ts = 1/t over the visible tokens (causal), or 1/T.
Matrix uniform_pattern(Eigen::Index tokens, bool causal);

/// Averages over the patterns of one law and one sequence length (T3).
class AttentionAverage {
 public:
  AttentionAverage(const PatternLaw& law, Eigen::Index tokens);

  /// E_A[A K̃ Aᵀ] (T4) for the kernel `k` [T, T] of the module's input: the mean over `samples` sampled
  /// single-head patterns, q and k rows being Gaussian processes over tokens with covariances
  /// query_variance·K̃ and key_variance·K̃; exact and without sampling for a uniform pattern. `stream` keys
  /// the random numbers.
  [[nodiscard]] Matrix mixed_kernel(const Matrix& k, int samples, PatternStream stream) const;

 private:
  // Samples are float: their rounding is far below their own spread, and they are most of the work.
  using Sample = Eigen::MatrixXf;
  [[nodiscard]] Sample projection(const Sample& factor, const Vector& diagonal, double variance, int heads,
                                  const Sample& white) const;

  PatternLaw law_;
  Sample cos_;  // RoPE, [T, head_dim/2]
  Sample sin_;
};

}  // namespace periscope::theory
