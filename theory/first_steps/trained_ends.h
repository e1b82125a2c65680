#pragma once

#include "theory/first_steps/trained_matrices.h"
#include "theory/first_steps/trained_norm.h"

namespace periscope::theory {

/// Embedding of one replicate. For done = 0, 1, … call `forward`, then `backward` while there is a next batch. The
/// references must outlive this object.
class TrainedEmbedding {
 public:
  TrainedEmbedding(const ModuleContext& context, const InitialStack& initial);
  /// Returns the streams at the stack's input, after the embedding norm if the stack has it.
  [[nodiscard]] TrainedStreams forward(const CurrentTokens& now);
  /// Stores the next batch's gradients at the stack's input [next, D]. Adds the squared norm of the gradient of the
  /// embedding table to `square`.
  void backward(const Sampled& gradients, const CurrentTokens& now, double& square);

 private:
  /// Returns the gradients of the current tokens' table rows at every step so far, [now, D] each.
  [[nodiscard]] std::vector<Sampled> row_gradients(const CurrentTokens& now) const;
  /// Returns E ∂x(s)/∂(∂loss/∂x(t)) [now, trained] before the embedding norm. `sums`: the result of row_gradients.
  [[nodiscard]] Sampled response(const std::vector<Sampled>& sums, const CurrentTokens& now) const;
  [[nodiscard]] bool same_id(Index s, Index t) const {
    const std::vector<int>& ids = context_.tokens.ids;
    return ids[static_cast<std::size_t>(s)] == ids[static_cast<std::size_t>(t)];
  }

  const ModuleContext& context_;
  const InitialStack& initial_;
  TrainedNorm norm_;        // the embedding norm
  Sampled input_gradient_;  // ∂loss/∂(scaled table row) of every batch at its step [all batches, D]
};

/// Final norm, unembedding and loss of one replicate. For done = 0, 1, … call `loss`, then `backward` while there is a
/// next batch. The references must outlive this object.
class TrainedOutput {
 public:
  explicit TrainedOutput(const ModuleContext& context);
  /// Returns the mean loss of the held-out tokens.
  [[nodiscard]] double loss(const TrainedStreams& x, const CurrentTokens& now);
  /// Returns the gradients of the next batch's loss for every stream [next, D]. Adds the squared norm of the gradient
  /// of the unembedding to `square`.
  [[nodiscard]] std::vector<Sampled> backward(const CurrentTokens& now, double& square);

 private:
  const ModuleContext& context_;
  StreamEnds ends_;
  TrainedNorm norm_;  // the final norm
  InputHistory history_;
  InputMatrix unembedding_;
  Sampled logit_gradient_;  // ∂loss/∂logits of the next batch [next, V]
};

}  // namespace periscope::theory
