#pragma once

#include "theory/first_steps/first_matrix.h"
#include "theory/first_steps/moved_norm.h"

namespace periscope::theory {

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
