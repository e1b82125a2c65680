#pragma once

#include <span>

#include "sim/model/stack.h"

namespace periscope {

/// Computes the logits [N, V] from the stack's output [N, D] (after the final norm): a projection to the embedding
/// table's width if that is not D, BERT's transform, the unembedding, the soft cap. Without an unembedding the logits
/// are the output. The pass is that of sublayer 2L.
Tensor head_forward(SublayerPass& pass, const Tensor& output);

/// Gradient of the output from that of the logits.
Tensor head_backward(SublayerPass& pass, const Tensor& dlogits);

/// Logits [N, V] of a stack's output [N, D], or the output itself without an unembedding.
Tensor logits_forward(const StackContext& context, const Tensor& output, const Hooks& hooks = {});

/// A loss, its logits, and its gradient with respect to the tensor [N, D] that they were computed from.
struct Loss {
  double value;  ///< cross-entropy, mean over the tokens that have a label
  Tensor logits;
  Tensor gradient;
};

/// Cross-entropy of a stack's output [N, D] with labels (below V, or below D without an unembedding; no_label leaves
/// a token out), and back.
Loss loss_of(const StackContext& context, const Tensor& output, std::span<const int> labels, const Hooks& hooks = {});

/// Runs both passes from a stack's input, before the embedding norm; the gradient is the input's. `budget`: the tape's.
Loss backpropagate(const StackContext& context, const Tensor& input, std::span<const int> labels, const Hooks& hooks,
                   std::size_t budget = StackTape().budget);

}  // namespace periscope
