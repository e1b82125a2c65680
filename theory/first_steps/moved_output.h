#pragma once

#include <optional>

#include "theory/first_steps/moved_modules.h"
#include "theory/first_steps/moved_norm.h"
#include "theory/first_steps/moved_streams.h"

namespace periscope::theory {

/// What is behind the last step of the stack of one chain, the final norm, the unembedding and the loss, step by step:
/// for done = 0, 1, … first `loss`, then `back`, as long as there is a next batch. The references outlive it.
class MovedOutput {
 public:
  /// Takes the logits and their gradients out of `initial`.
  MovedOutput(const ModuleContext& context, InitialStack& initial);
  /// The mean loss of the held-out tokens.
  [[nodiscard]] double loss(const MovedStreams& x, const TokensNow& now);
  /// The gradients of the next batch's loss, of every stream [next, channels].
  [[nodiscard]] std::vector<Sampled> back(const TokensNow& now);

 private:
  /// What the unembedding reads; `slope` of the final norm now [now].
  [[nodiscard]] MovedInput read_by_unembedding(const MovedStreams& x, const Vector& slope, const TokensNow& now) const;

  const ModuleContext& context_;
  const InitialStack& initial_;
  NormUse norm_use_;
  StreamEnds ends_;
  MovedNorm norm_;  // the final norm
  RowFields unembedding_;
  ReadHistory history_;
  FirstMatrix update_;
  Sampled channels_;      // of what the unembedding reads, before training [all, channels]
  Sampled channels_now_;  // the same now, of the next batch [next, channels]
};

}  // namespace periscope::theory
