#pragma once

#include "theory/first_steps/moved_streams.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// One norm of the stack, or a factor in its place, step by step: how it divided the tokens of every batch when their
/// step was taken, which is how their gradients came back.
class MovedNorm {
 public:
  /// `used`: whether there is a norm, of gain γ times `gain`; else there is the factor `gain` alone.
  MovedNorm(const StackSpec& spec, const TrainingTokens& tokens, bool used, double gain = 1.0);

  /// What it multiplied the tokens of the batches that are done by [trained].
  [[nodiscard]] Vector times(const TokensNow& now) const { return times_.head(now.trained()); }
  /// Lets a signal through and keeps the next batch.
  void pass(MovedSignal& signal, const TokensNow& now);
  /// The same of the channels alone; `correction` is E x² less that of the channels [now].
  struct Passed {
    Vector slope;  ///< what every token was multiplied by [now]
    /// What becomes of ∂x(s)/∂(∂loss/∂x(t)): slope(s) slope(t) tr(P_s P_t)/D, P = I − zzᵀ/‖z‖² the norm's projection.
    Sampled response;  ///< [now, trained]
  };
  Passed pass(MovedParts& x, const Vector& correction, const TokensNow& now);
  /// From the next batch's gradients of the output those of the input [next, D]:
  /// slope · (g − ⟨g, z⟩ z/γ²), z the output.
  [[nodiscard]] Sampled back(Sampled gradients, const TokensNow& now) const;

 private:
  NormUse norm_;
  bool used_;
  double gain_;     // of its output
  Vector times_;    // [all batches]
  Sampled output_;  // of every batch at its step [all batches, D]
};

}  // namespace periscope::theory
