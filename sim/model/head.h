#pragma once

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// From the stack's output [N, D] (after the final norm) to the logits [N, V]: a projection to the embedding table's
/// width if that is not D, BERT's transform, the unembedding, the soft cap. Without an unembedding the logits are the
/// output. The pass is that of sublayer 2L.
Tensor head_forward(SublayerPass& pass, const Tensor& output);

/// Gradient of the output from that of the logits.
Tensor head_backward(SublayerPass& pass, const Tensor& dlogits);

}  // namespace periscope
