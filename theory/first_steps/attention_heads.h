#pragma once

#include <vector>

#include "sim/spec/model_spec.h"
#include "theory/attention/attention_head.h"
#include "theory/first_steps/chain.h"

namespace periscope::theory {

/// Attention of single heads over sequences that do not attend to each other, forward and backward: softmax, mask,
/// RoPE, QK-norm and the soft cap as the stack has them. Rows are tokens.
class SequenceAttention {
 public:
  SequenceAttention(const ModelSpec& model, int layer, Index sequence);

  /// Queries or keys of one head as they enter the logits.
  struct Rotated {
    Sampled rotated;          ///< [T, e]
    Sampled normalised;       ///< before RoPE [T, e]
    Eigen::VectorXf inverse;  ///< what QK-norm multiplied by [T]; empty without it
  };
  /// `others`: the expected mean square of the other heads' entries [T], for QK-norm over the whole projection.
  [[nodiscard]] Rotated rotated(const Sampled& projection, const Eigen::VectorXf& others, int heads) const;
  /// The gradient of the projection from that of `rotated`.
  [[nodiscard]] Sampled back(const Rotated& forward, const Sampled& gradient, int heads) const;

  /// The patterns of all sequences, one after another.
  using Patterns = std::vector<Sampled>;
  struct Scores {
    Patterns pattern;     ///< A [T, T] of every sequence
    Patterns derivative;  ///< ∂z/∂(q·k) of every sequence, with a soft cap; else empty
  };
  [[nodiscard]] Scores scores(const Sampled& q, const Sampled& k) const;
  /// A x.
  [[nodiscard]] Sampled mixed(const Patterns& a, const Sampled& x) const;
  /// Aᵀ x.
  [[nodiscard]] Sampled mixed_back(const Patterns& a, const Sampled& x) const;
  /// The gradient of q·k from those of the head's output and from its values.
  [[nodiscard]] Patterns score_gradient(const Scores& scores, const Sampled& output_gradient, const Sampled& v) const;

 private:
  [[nodiscard]] Sampled rotate(const Sampled& x, float direction) const;

  const ModelSpec& model_;
  QkNorm qk_norm_;
  ScoreRule rule_;
  double scale_;
  Index sequence_;
  Rotation rotation_;  // of one sequence; empty without RoPE
};

}  // namespace periscope::theory
