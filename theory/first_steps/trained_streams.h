#pragma once

#include <map>
#include <memory>
#include <vector>

#include "sim/spec/block.h"
#include "theory/first_steps/initial_stack.h"
#include "theory/first_steps/update_law.h"
#include "theory/modules/stream_pairs.h"

namespace periscope::theory {

/// Current channels of a signal, the sum of three parts [now, D].
struct SignalParts {
  Sampled initial;      ///< Σ_b keep_b x_b⁰, with x_b⁰ the output of branch b before training
  Sampled independent;  ///< changes that are independent of the gradients
  Sampled coherent;     ///< y, the part along the gradients

  static SignalParts zero(Index rows, Index width);
  [[nodiscard]] Sampled total() const { return initial + independent + coherent; }
  void add(double weight, const SignalParts& x);
  /// Multiplies row t by factors_t.
  void scale(const Vector& factors);
};

/// Current signal, with the correction of its kernel and its response to gradients.
struct TrainedSignal {
  SignalParts x;
  /// E x(s) x(s') minus the mean over channels [now, now]; nonzero if only some hidden channels are sampled.
  Matrix correction;
  Sampled response;  ///< E ∂x(s)/∂(∂loss/∂x(t)) [now, trained]
};

/// Current streams, with corrections and responses (TrainedSignal) of every pair of streams.
struct TrainedStreams {
  std::vector<SignalParts> x;
  StreamPairs<Matrix> correction;
  StreamPairs<Sampled> response;  ///< response of the first stream to the gradient of the second

  [[nodiscard]] TrainedSignal sum(const std::vector<double>& weights) const;
};

/// Returns the streams after a step of the stack, before its norms C.
TrainedStreams added(const Step& step, const TrainedStreams& x, const std::vector<TrainedSignal>& written);

/// Current output of a module, before norm B.
struct ModuleOutput {
  TrainedSignal output;
  std::map<Weight, double> update_square;  ///< mean square of an entry of ΔW·h on the held-out tokens
};

/// Specification, tokens, random numbers and optimizer shared by the modules of a replicate.
struct ModuleContext {
  const StackSpec& spec;
  const TrainingTokens& tokens;
  const ReplicateDraws& draws;
  const UpdateLaw& law;
  StepFault fault;
};

/// A module of a replicate. For done = 0, 1, … call `forward`, then `backward` while there is a next batch.
class TrainedModule {
 public:
  virtual ~TrainedModule() = default;
  [[nodiscard]] virtual ModuleOutput forward(const TrainedSignal& input, const CurrentTokens& now) = 0;
  /// Returns ∂loss/∂A_out of the next batch, given its ∂loss/∂f, both [next, D]. Adds the squared norm of the gradients
  /// of the module's matrices to `square`.
  [[nodiscard]] virtual Sampled backward(const Sampled& gradients, const CurrentTokens& now, double& square) = 0;
};

/// The references must outlive the module.
std::unique_ptr<TrainedModule> trained_mlp(const ModuleContext& context, int layer, const InitialBranch& branch);
std::unique_ptr<TrainedModule> trained_attention(const ModuleContext& context, int layer, const InitialBranch& branch);

}  // namespace periscope::theory
