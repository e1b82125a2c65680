#pragma once

#include <map>
#include <memory>
#include <vector>

#include "sim/spec/block.h"
#include "theory/first_steps/chain.h"
#include "theory/first_steps/update_law.h"
#include "theory/modules/stream_pairs.h"

namespace periscope::theory {

/// Channels of a signal now, in three parts [now, D]: x = kept + wanders + follows.
struct MovedParts {
  Sampled kept;     ///< Σ_b keep_b x_b⁰, multiples of what every branch b wrote to the token before training
  Sampled wanders;  ///< other changes, independent of the gradients
  Sampled follows;  ///< y, the part that follows the gradients

  static MovedParts zero(Index rows, Index width);
  [[nodiscard]] Sampled total() const { return kept + wanders + follows; }
  void add(double weight, const MovedParts& x);
  /// Multiplies the row of every token by its entry of `by`.
  void scale(const Vector& by);
};

/// A signal now, with its kernel's correction and its response.
struct MovedSignal {
  MovedParts x;
  /// E x(s) x(s') minus the mean over channels; nonzero where fewer hidden channels were drawn than a module has
  /// [now, now].
  Matrix correction;
  Sampled response;  ///< E ∂x(s)/∂(∂loss/∂x(t)) [now, trained]
};

/// The streams now, with the corrections and responses of MovedSignal for every pair of them.
struct MovedStreams {
  std::vector<MovedParts> x;
  StreamPairs<Matrix> correction;
  StreamPairs<Sampled> response;  ///< of the first stream with respect to the gradient of the second

  [[nodiscard]] MovedSignal sum(const std::vector<double>& weights) const;
};

/// Returns the streams after a step, before its norms C.
MovedStreams added(const Step& step, const MovedStreams& x, const std::vector<MovedSignal>& written);

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

}  // namespace periscope::theory
