#pragma once

#include "theory/first_steps/moved_streams.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// One norm of the stack, or a constant factor where the stack has no norm, step by step. Stores slopes and outputs of
/// every batch at its step: the batch's gradients passed back through these.
class MovedNorm {
 public:
  /// If `used`, a norm of gain γ·`gain`; otherwise the factor `gain`.
  MovedNorm(const StackSpec& spec, const TrainingTokens& tokens, bool used, double gain = 1.0);

  /// Slopes of the tokens of past batches at their steps [trained].
  [[nodiscard]] Vector times(const TokensNow& now) const { return times_.head(now.trained()); }
  /// Applies the norm and stores the next batch.
  void pass(MovedSignal& signal, const TokensNow& now);
  struct Passed {
    Vector slope;  ///< of every token [now]
    /// Factor of ∂x(s)/∂(∂loss/∂x(t)): slope(s) slope(t) tr(P_s P_t)/D, P = I − zzᵀ/‖z‖² the norm's projection.
    Sampled response;  ///< [now, trained]
  };
  /// Applies the norm to the channels alone; `correction` is E x² minus the channels' mean square [now].
  Passed pass(MovedParts& x, const Vector& correction, const TokensNow& now);
  /// Returns the next batch's input gradients slope · (g − ⟨g, z⟩ z/γ²) from its output gradients g [next, D], z the
  /// output. Adds the squared norm of the gradients of its gains and biases to `square`.
  [[nodiscard]] Sampled back(Sampled gradients, const TokensNow& now, double& square) const;

 private:
  NormUse norm_;
  bool used_;
  double gamma_, gain_;  // the norm's gain, and that times the factor `gain`
  Vector times_;         // [all batches]
  Sampled output_;       // of every batch at its step [all batches, D]
};

}  // namespace periscope::theory
