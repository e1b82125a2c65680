#pragma once

#include <memory>
#include <vector>

#include "theory/attention/attention_head.h"
#include "theory/attention/grid_attention.h"
#include "theory/attention/score_path.h"

namespace periscope::theory {

/// True if the pattern is uniform for every input (σ_q σ_k = 0 without biases), so that averages over it have a closed
/// form.
bool is_uniform(const PatternLaw& law);

/// The pattern of σ_q σ_k = 0: every token that the law lets see gets the same, 1/t (causal), 1/T or one over the
/// window, of its own sequence.
Matrix uniform_pattern(Index tokens, const PatternLaw& law);

/// Gradient kernels of one attention head, each [T, T].
struct HeadGradients {
  Matrix output;  ///< E[A K̃ Aᵀ], of the head's output, as in the forward pass
  Matrix value;   ///< E[Aᵀ G A]
  /// E⟨dq_t, dq_t'⟩ and E⟨dk_t, dk_t'⟩ summed over the head's features, for value entries of covariance K̃ and
  /// output gradients of covariance G: multiply by σ_v²D σ_o².
  Matrix query, key;
};

/// Averages over the patterns of one law and one sequence length (T3). `stream` keys the random numbers: the
/// same stream meets the same patterns forward and backward.
class AttentionAverage {
 public:
  AttentionAverage(const PatternLaw& law, Index tokens) : law_(law), head_(law, tokens) {}
  /// Averages of kernels of a grid's kept tokens; forward ones alone, of one kernel for queries and keys. The grid must
  /// outlive this.
  AttentionAverage(const PatternLaw& law, const TokenGrid& grid)
      : law_(law), head_(law, Index{0}), grid_(std::make_shared<const GridAttention>(law, grid)) {}

  /// E_A[A K̃ Aᵀ] (T4), the kernel of a head's output before W_o, for the kernel `k` [T, T] of the module's input: the
  /// mean over `samples` sampled patterns, which come in pairs (HeadSample); exact for a uniform pattern.
  [[nodiscard]] Matrix head_output_kernel(const Matrix& k, int samples, PatternStream stream) const {
    return head_output_kernel(k, k, k, samples, stream);
  }
  /// Returns the kernel where W_q, W_k and W_v read unlike kernels of one input (T29, read_kernel).
  [[nodiscard]] Matrix head_output_kernel(const Matrix& of_query, const Matrix& of_key, const Matrix& of_value,
                                          int samples, PatternStream stream) const;

  /// T9 for the input kernel `k` and the gradient kernel `g` at the module's output, values and output gradients in
  /// closed form (ScorePathSum). Exactly 0 for queries and keys of equal tokens or a single one.
  [[nodiscard]] HeadGradients gradients(const Matrix& k, const Matrix& g, int samples, PatternStream stream) const {
    return gradients(k, k, g, samples, stream);
  }
  /// Returns the gradients where the values have a kernel of their own, as after V-norm.
  [[nodiscard]] HeadGradients gradients(const Matrix& k, const Matrix& of_value, const Matrix& g, int samples,
                                        PatternStream stream) const;

  /// Samples the score path whole: draws values and output gradients of one head, one of each per pattern, and runs the
  /// head's backward pass, softmax, RoPE and QK-norm included. `gradients` does this for logits beyond 1000, and tests
  /// compare the closed form with it; it has several times the noise.
  [[nodiscard]] HeadGradients sampled_gradients(const Matrix& k, const Matrix& of_value, const Matrix& g, int samples,
                                                PatternStream stream) const;

 private:
  template <class Visit>
  void for_heads(const ScaledKernel& of_query, const ScaledKernel& of_key, int samples, PatternStream stream,
                 const Visit& visit) const;
  [[nodiscard]] std::vector<SampledPattern> patterns_of(const HeadSample& head, const CentredKernel& values,
                                                        int count) const;
  [[nodiscard]] bool too_sharp(const Matrix& k) const;

  PatternLaw law_;
  AttentionHead head_;
  std::shared_ptr<const GridAttention> grid_;  // null: kernels are those of all tokens
};

}  // namespace periscope::theory
