#pragma once

#include "sim/model/context.h"
#include "sim/model/observer.h"

namespace periscope {

/// What the head computes on the way from the stack's output [N, D] to the logits; parts that the model does not
/// have are the tensor before them.
struct HeadSignals {
  Tensor projected;    ///< x W_project_outᵀ [N, embedding width]
  Tensor dense;        ///< projected W_head_denseᵀ, of BERT's transform [N, embedding width]
  Tensor activated;    ///< φ(dense)
  Tensor transformed;  ///< norm(activated), what the unembedding reads
  Tensor scores;       ///< transformed Uᵀ [N, V]
  Tensor logits;       ///< after the soft cap [N, V]
};

/// From the stack's output (after the final norm) to the logits. Without an unembedding the logits are the output.
HeadSignals head_forward(const StackContext& context, const Tensor& output);

/// Gradient of the output from that of the logits. `signals` are those of the output.
Tensor head_backward(const StackContext& context, const Tensor& output, const HeadSignals& signals,
                     const Tensor& dlogits, GradientObserver& observer);

}  // namespace periscope
