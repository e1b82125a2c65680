#pragma once

#include <vector>

#include "sim/spec/block.h"
#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// The gradient kernels G_ij = E⟨∂loss/∂x_i,t, ∂loss/∂x_j,t'⟩ of a stack's streams (sim/spec/block.h), [T, T] each.
class GradientStreams {
 public:
  /// Behind the last step, from the kernel of the gradient of the output: behind the final norm, in front of it on one
  /// side, and on both.
  GradientStreams(const Matrix& output, const Matrix& once, const Matrix& twice, const StreamEnds& ends);

  /// Goes back through a norm of one stream.
  void scale(std::size_t stream, const Vector& factor);
  /// E⟨d, d'⟩ of d = Σ_i weights_i ∂loss/∂x_i.
  [[nodiscard]] Matrix sum(const std::vector<double>& weights) const;
  /// T11 for a step: through its mixing, and through what its branches read, whose gradients are independent of
  /// everything above; an empty one is 0.
  void back(const Step& step, const std::vector<Matrix>& read);
  /// Mean over tokens of E‖∂loss/∂x_t‖² of the signal x_out; `of_input`: of what all streams are at the beginning.
  [[nodiscard]] double of_stream(const StreamEnds& ends, bool of_input) const;

 private:
  [[nodiscard]] std::size_t count() const { return g_.size(); }
  /// G_ij; what is known to be 0 is empty.
  [[nodiscard]] Matrix at(std::size_t i, std::size_t j) const;

  std::vector<std::vector<Matrix>> g_;  // [i][j], i ≤ j
  Index tokens_;
};

}  // namespace periscope::theory
