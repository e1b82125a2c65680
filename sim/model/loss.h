#pragma once

#include <span>

#include "sim/model/stack.h"

namespace periscope {

/// Computes the logits [N, V] from the stack's output [N, D]: projection to the embedding table's width if that differs
/// from D, BERT's transform, unembedding, soft cap. Without an unembedding, the logits equal the output. Requires the
/// pass of sublayer 2L.
Tensor head_forward(SublayerPass& pass, const Tensor& output);

/// Returns the gradient of the stack's output, given the gradient of the logits.
Tensor head_backward(SublayerPass& pass, const Tensor& dlogits);

/// Logits [N, V] of a stack's output [N, D], or the output itself without an unembedding.
Tensor logits_forward(const StackContext& context, const Tensor& output, const Hooks& hooks = {});

/// A loss, its logits, and its gradient with respect to the tensor [N, D] from which it was computed.
struct Loss {
  double value;  ///< cross-entropy, mean over the labelled tokens
  Tensor logits;
  Tensor gradient;
};

/// Computes the cross-entropy of a stack's output [N, D] and its gradient. Labels are below V (below D without an
/// unembedding), or no_label to skip a token.
Loss loss_of(const StackContext& context, const Tensor& output, std::span<const int> labels, const Hooks& hooks = {});

/// Runs both passes and returns the gradient of the stack's input. `budget` is StackTape::budget.
Loss backpropagate(const StackContext& context, const Tensor& input, std::span<const int> labels, const Hooks& hooks,
                   std::size_t budget = StackTape().budget);

}  // namespace periscope
