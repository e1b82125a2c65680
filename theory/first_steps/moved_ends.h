#pragma once

#include "theory/first_steps/moved_norm.h"
#include "theory/first_steps/trained_matrices.h"

namespace periscope::theory {

/// The embedding of one chain, step by step: for done = 0, 1, … first `now`, then `back`, as long as there is a next
/// batch. The references outlive it.
class MovedEmbedding {
 public:
  MovedEmbedding(const ModuleContext& context, const InitialStack& initial);
  /// Returns the streams at the stack's input, after the embedding norm if there is one.
  [[nodiscard]] MovedStreams now(const TokensNow& now);
  /// Stores the next batch's gradients at the stack's input [next, D]; adds the squared norm of the table's gradient to
  /// `square`.
  void back(const Sampled& gradients, const TokensNow& now, double& square);

 private:
  /// Returns for every step so far the gradients of the table rows of the current tokens, [now, D] each.
  [[nodiscard]] std::vector<Sampled> row_gradients(const TokensNow& now) const;
  /// Returns E ∂x(s)/∂(∂loss/∂x(t)) [now, trained] before the embedding norm; `sums` as from row_gradients.
  [[nodiscard]] Sampled response(const std::vector<Sampled>& sums, const TokensNow& now) const;
  [[nodiscard]] bool same_id(Index s, Index t) const {
    const std::vector<int>& ids = context_.tokens.ids;
    return ids[static_cast<std::size_t>(s)] == ids[static_cast<std::size_t>(t)];
  }

  const ModuleContext& context_;
  const InitialStack& initial_;
  MovedNorm norm_;          // the embedding norm
  Sampled input_gradient_;  // ∂loss/∂(scaled table row) of every batch at its step [all batches, D]
};

/// Final norm, unembedding and loss of one chain, step by step: for done = 0, 1, … first `loss`, then `back` while
/// there is a next batch. The references outlive it.
class MovedOutput {
 public:
  explicit MovedOutput(const ModuleContext& context);
  /// Returns the mean loss of the held-out tokens.
  [[nodiscard]] double loss(const MovedStreams& x, const TokensNow& now);
  /// Returns the gradients of the next batch's loss for every stream [next, D]; adds the squared norm of the
  /// unembedding's gradient to `square`.
  [[nodiscard]] std::vector<Sampled> back(const TokensNow& now, double& square);

 private:
  const ModuleContext& context_;
  StreamEnds ends_;
  MovedNorm norm_;  // the final norm
  ReadHistory history_;
  FirstMatrix unembedding_;
  Sampled logit_gradient_;  // of the next batch [next, V]
};

}  // namespace periscope::theory
