#pragma once

#include "theory/first_steps/trained_streams.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// A norm of the stack, or a constant factor in place of an absent norm. Stores slopes and outputs of every batch at
/// its step, as used by the batch's backward pass.
class TrainedNorm {
 public:
  /// A norm of gain γ·`gain` if `used`; otherwise the factor `gain`.
  TrainedNorm(const StackSpec& spec, const TrainingTokens& tokens, bool used, double gain = 1.0);

  /// Returns the slopes of past tokens at their steps [trained].
  [[nodiscard]] Vector past(const CurrentTokens& now) const { return slopes_.head(now.trained()); }
  /// Applies the norm and stores the next batch.
  void forward(TrainedSignal& signal, const CurrentTokens& now);
  struct Passed {
    Vector slope;  ///< slope of every token [now]
    /// Factor that multiplies ∂x(s)/∂(∂loss/∂x(t)): slope(s) slope(t) tr(P_s P_t)/D, where P = I − zzᵀ/‖z‖².
    Sampled response;  ///< [now, trained]
  };
  /// Applies the norm to channels only. `correction`: E x² minus the mean square over sampled channels [now].
  Passed forward(SignalParts& x, const Vector& correction, const CurrentTokens& now);
  /// Returns the next batch's input gradients slope·(g − ⟨g, z⟩ z/γ²), given output gradients g [next, D] and outputs
  /// z. Adds the squared norm of the gradients of gains and biases to `square`.
  [[nodiscard]] Sampled backward(Sampled gradients, const CurrentTokens& now, double& square) const;

 private:
  NormUse norm_;
  bool used_;
  double gamma_, gain_;  // γ, and the overall factor: γ·`gain` with a norm, else `gain`
  Vector slopes_;        // slopes of every batch at its step [all batches]
  Sampled output_;       // outputs of every batch at its step [all batches, D]
};

}  // namespace periscope::theory
