#pragma once

#include "sim/model/context.h"
#include "sim/model/observer.h"

namespace periscope {

/// What an attention module computes on the way from its input to its output.
struct AttentionSignals {
  Tensor q_projected;  ///< x W_qᵀ [N, H·e]
  Tensor k_projected;  ///< x W_kᵀ [N, kv_heads·e]
  Tensor q, k, v;      ///< what the heads read, after QK-norm and RoPE
  Tensor mixed;        ///< the heads' outputs side by side [N, H·e]
  Tensor out;          ///< mixed W_oᵀ [N, D]
};

/// Attention module of `layer` on its (normalised) input x [N, D].
AttentionSignals attention_signals(const StackContext& context, int layer, const Tensor& x);

/// The module's output alone [N, D].
Tensor attention_forward(const StackContext& context, int layer, const Tensor& x);

/// Gradient of x from that of the output, dy [N, D]. `signals` are those of x.
Tensor attention_backward(const StackContext& context, int layer, const Tensor& x, const AttentionSignals& signals,
                          const Tensor& dy, GradientObserver& observer);

}  // namespace periscope
