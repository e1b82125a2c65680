#pragma once

#include <vector>

#include "theory/first_steps/chain_draws.h"
#include "theory/first_steps/training_tokens.h"

namespace periscope::theory {

/// Signals of one module before training, of all tokens of a chain.
struct InitialBranch {
  Sampled read;     ///< what it reads, after norm A [all, D]
  Sampled written;  ///< what it writes, before norm B [all, D]
};

/// A stack before training.
struct InitialStack {
  std::vector<InitialBranch> branches;  ///< by sublayer
  Sampled embedded;                     ///< the tokens' rows of the embedding table [all, D]
};

/// Draws one stack's stream at its own width: each module's output from its exact law given its input, as in the
/// finite-width chain (T25).
InitialStack initial_stack(const StackSpec& spec, const TrainingTokens& tokens, const ChainDraws& draws);

}  // namespace periscope::theory
