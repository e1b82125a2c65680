#pragma once

#include <span>

#include "sim/model/stack.h"

namespace periscope {

/// Logits [N, V] of a stack's output [N, D], or the output itself without an unembedding.
Tensor logits_forward(const StackContext& context, const Tensor& output, const Hooks& hooks = {});

/// A loss, what it was computed from, and where its gradient goes on.
struct Loss {
  double value;  ///< cross-entropy, mean over the tokens that have a label
  Tensor logits;
  Tensor doutput;  ///< gradient of the stack's output [N, D]
};

/// Cross-entropy of a stack's output [N, D] with labels (below V, or below D without an unembedding; no_label leaves
/// a token out), and back.
Loss loss_of(const StackContext& context, const Tensor& output, std::span<const int> labels, const Hooks& hooks = {});

/// What a pass through a stack and back ends with.
struct Backpropagated {
  double loss;
  Tensor logits;
  Tensor dinput;  ///< gradient of the stack's input, before the embedding norm [N, D]
};

/// Forward pass, loss and backward pass.
Backpropagated backpropagate(const StackContext& context, const Tensor& input, std::span<const int> labels,
                             const Hooks& hooks);

}  // namespace periscope
