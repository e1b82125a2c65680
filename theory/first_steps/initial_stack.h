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
  Sampled embedded;                     ///< the rows of the table that the tokens look up [all, D]
};

/// Draws the stream of one stack, at its own width: channels from the exact law of what each module adds (T25), without
/// the module's matrices.
InitialStack initial_stack(const StackSpec& spec, const TrainingTokens& tokens, const ChainDraws& draws);

}  // namespace periscope::theory
