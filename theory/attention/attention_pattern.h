#pragma once

#include <memory>
#include <vector>

#include "theory/attention/attention_head.h"
#include "theory/attention/grid_attention.h"
#include "theory/attention/grid_gradients.h"
#include "theory/attention/score_path.h"

namespace periscope::theory {

/// Returns true if the pattern is uniform for every input (σ_q σ_k = 0 without biases), so averages have a closed form.
bool is_uniform(const PatternLaw& law);

/// Returns the pattern for σ_q σ_k = 0: equal weights on all visible tokens, 1/t (causal), 1/T or 1/window.
Matrix uniform_pattern(Index tokens, const PatternLaw& law);

/// Kernels of one attention head in the backward pass, each [T, T].
struct HeadGradients {
  Matrix output;  ///< forward kernel of the head's output, E[A K̃ Aᵀ]
  Matrix value;   ///< gradient kernel of the values, E[Aᵀ G A]
  /// E⟨dq_t, dq_t'⟩ and E⟨dk_t, dk_t'⟩ summed over the head's features, in units of σ_v²D σ_o², for value entries of
  /// covariance K̃ and output gradients of covariance G.
  Matrix query, key;
};

/// Averages over attention patterns of one law and sequence length (T3). `stream` keys the random numbers, so equal
/// streams give equal patterns in the forward and backward pass.
class AttentionAverage {
 public:
  AttentionAverage(const PatternLaw& law, Index tokens) : law_(law), head_(law, tokens) {}
  /// Averages on a token grid, with one kernel for queries and keys; gradients only with a `fit`. Grid and fit must
  /// outlive this object.
  AttentionAverage(const PatternLaw& law, const TokenGrid& grid, const GridFit* fit = nullptr)
      : law_(law), head_(law, Index{0}), grid_(std::make_shared<const GridAttention>(law, grid)) {
    if (fit != nullptr) grid_gradients_ = std::make_shared<const GridGradients>(law, grid, *fit);
  }

  /// Returns E_A[A K̃ Aᵀ] (T4), the kernel of a head's output before W_o, for the kernel `k` [T, T] of the module's
  /// input. Mean over `samples` patterns, drawn in antithetic pairs (HeadSample); exact for a uniform pattern.
  [[nodiscard]] Matrix head_output_kernel(const Matrix& k, int samples, PatternStream stream) const {
    return head_output_kernel(k, k, k, samples, stream);
  }
  /// Overload for W_q, W_k and W_v that read different kernels of the same input (T29, read_kernel).
  [[nodiscard]] Matrix head_output_kernel(const Matrix& of_query, const Matrix& of_key, const Matrix& of_value,
                                          int samples, PatternStream stream) const;

  /// Returns the gradient kernels (T9) for the input kernel `k` and the gradient kernel `g` at the module's output. The
  /// average over values and output gradients is in closed form (ScorePathSum). Query and key gradients are exactly 0
  /// for equal tokens or a single token.
  [[nodiscard]] HeadGradients gradients(const Matrix& k, const Matrix& g, int samples, PatternStream stream) const {
    return gradients(k, k, g, samples, stream);
  }
  /// Overload for values whose kernel differs from the input kernel, as after V-norm.
  [[nodiscard]] HeadGradients gradients(const Matrix& k, const Matrix& of_value, const Matrix& g, int samples,
                                        PatternStream stream) const;

  /// Same as `gradients`, but samples the score path: draws values and output gradients once per pattern and runs the
  /// head's backward pass through softmax, RoPE and QK-norm. Several times noisier; `gradients` uses it for logits
  /// above 1000, and tests compare it with the closed form.
  [[nodiscard]] HeadGradients sampled_gradients(const Matrix& k, const Matrix& of_value, const Matrix& g, int samples,
                                                PatternStream stream) const;

 private:
  template <class Visit>
  void for_heads(const ScaledKernel& of_query, const ScaledKernel& of_key, int samples, PatternStream stream,
                 const Visit& visit) const;
  [[nodiscard]] std::vector<SampledPattern> patterns_of(const HeadSample& head, const CentredKernel& values,
                                                        int count) const;
  [[nodiscard]] bool softmax_saturates(const Matrix& k) const;

  PatternLaw law_;
  AttentionHead head_;
  std::shared_ptr<const GridAttention> grid_;  // null: kernels cover all tokens
  std::shared_ptr<const GridGradients> grid_gradients_;
};

}  // namespace periscope::theory
