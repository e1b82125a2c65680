#pragma once

#include "theory/first_steps/initial_stack.h"

namespace periscope::theory {

/// What a norm multiplies tokens of these mean squares by, gain γ.
[[nodiscard]] Vector slope_of(const Vector& square, const NormUse& norm, double gamma);

/// a/b of every token; 0 where b is, of a norm with gain 0, behind which there is nothing to keep.
[[nodiscard]] Vector ratio(const Vector& a, const Vector& b);

/// E x² of every row over its columns.
[[nodiscard]] Vector mean_square(const Sampled& rows);

/// One norm of the stack, step by step: how it divided the tokens of every batch at their own step, which is how it
/// lets the gradients of that batch back.
class MovedNorm {
 public:
  explicit MovedNorm(const TrainingTokens& tokens) : times_(Vector::Ones(tokens.trained())) {}

  /// What it multiplied the tokens of the batches that are done by [trained].
  [[nodiscard]] Vector times(const TokensNow& now) const { return times_.head(now.trained()); }
  /// Keeps the next batch: `slope` multiplies its tokens now [now].
  void append(const Vector& slope, const TokensNow& now);
  /// The same, with what of the norm's output follows the gradients, y [now, channels].
  void append(const Vector& slope, const Sampled& follows, const TokensNow& now);
  /// From the next batch's gradients of the norm's output those of its input, both of sampled channels
  /// [next, channels]: slope · (g − ⟨g, z⟩ z/γ²), z the output, of which y alone goes with gradients; `gain` is γ.
  /// Without a y nothing is taken off.
  [[nodiscard]] Sampled back(Sampled gradients, double gain, const TokensNow& now) const;

 private:
  Vector times_;    // [all batches]
  Sampled passed_;  // y of the next batch [next, channels]
};

}  // namespace periscope::theory
