#pragma once

#include <vector>

#include "sim/spec/model_spec.h"
#include "theory/attention/attention_head.h"
#include "theory/first_steps/initial_stack.h"

namespace periscope::theory {

/// Forward and backward pass of single attention heads over independent sequences. Rows are tokens.
class SequenceAttention {
 public:
  SequenceAttention(const ModelSpec& model, int layer, Index sequence);

  /// Queries or keys of one head.
  struct Rotated {
    Sampled rotated;          ///< after QK-norm and RoPE [T, e]
    Sampled normalised;       ///< after QK-norm, before RoPE [T, e]
    Eigen::VectorXf inverse;  ///< factors of QK-norm [T]; empty without QK-norm
  };
  /// `others`: expected mean square of the entries of other heads [T], for QK-norm over the whole projection.
  [[nodiscard]] Rotated rotated(const Sampled& projection, const Eigen::VectorXf& others, int heads) const;
  /// Returns the gradient at the projection, given the gradient at `rotated`.
  [[nodiscard]] Sampled backward(const Rotated& forward, const Sampled& gradient, int heads) const;

  /// One [T, T] matrix per sequence.
  using Patterns = std::vector<Sampled>;
  struct Scores {
    Patterns pattern;     ///< attention weights A
    Patterns derivative;  ///< ∂z/∂(q·k); empty without a soft cap
  };
  [[nodiscard]] Scores scores(const Sampled& q, const Sampled& k) const;
  /// Returns A x.
  [[nodiscard]] Sampled mixed(const Patterns& a, const Sampled& x) const;
  /// Returns Aᵀ x.
  [[nodiscard]] Sampled mixed_transposed(const Patterns& a, const Sampled& x) const;
  /// Returns the gradient at q·k, given the gradient at the head's output and the values v.
  [[nodiscard]] Patterns score_gradient(const Scores& scores, const Sampled& output_gradient, const Sampled& v) const;

 private:
  [[nodiscard]] Sampled rotate(const Sampled& x, float direction) const;

  const ModelSpec& model_;
  QkNorm qk_norm_;
  int head_dim_;
  ScoreRule rule_;
  double scale_;
  Index sequence_;
  Rotation rotation_;  // angles of one sequence; empty without RoPE
};

}  // namespace periscope::theory
