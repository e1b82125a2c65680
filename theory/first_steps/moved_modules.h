#pragma once

#include <map>
#include <memory>

#include "theory/first_steps/initial_stack.h"
#include "theory/first_steps/moved_streams.h"
#include "theory/first_steps/update_law.h"

namespace periscope::theory {

/// A module's output f now, before norm B.
struct MovedModule {
  MovedSignal output;
  std::map<Weight, double> update_square;  ///< mean square of an entry of ΔW·h of the held-out tokens
};

/// Specification, tokens, random numbers and optimizer that the modules of a chain share.
struct ModuleContext {
  const StackSpec& spec;
  const TrainingTokens& tokens;
  const ChainDraws& draws;
  const UpdateLaw& law;
  StepFault fault;
};

/// One module of a chain, step by step: for done = 0, 1, … first `now`, then `back`, as long as there is a next batch.
class TrainedModule {
 public:
  virtual ~TrainedModule() = default;
  [[nodiscard]] virtual MovedModule now(const MovedSignal& input, const TokensNow& now) = 0;
  /// Returns ∂loss/∂A_out of the next batch from its ∂loss/∂f, both [next, D]. Adds the squared norm of the gradients
  /// of the module's matrices to `square`.
  [[nodiscard]] virtual Sampled back(const Sampled& gradients, const TokensNow& now, double& square) = 0;
};

/// The references outlive it.
std::unique_ptr<TrainedModule> trained_mlp(const ModuleContext& context, int layer, const InitialBranch& branch);
std::unique_ptr<TrainedModule> trained_attention(const ModuleContext& context, int layer, const InitialBranch& branch);

/// Returns a response [now, trained] times what weight decay has left of the two matrices that it passes: W₀ᵀ at each
/// batch's step, and W₀ now.
Sampled decayed(const Sampled& response, const UpdateLaw& law, const TokensNow& now);

}  // namespace periscope::theory
