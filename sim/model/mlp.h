#pragma once

#include "sim/model/context.h"
#include "sim/model/observer.h"

namespace periscope {

/// What an MLP module computes on the way from its input to its output.
struct MlpSignals {
  Tensor gate;    ///< x W_gateᵀ [N, h]; empty if the MLP has no gate
  Tensor up;      ///< x W_upᵀ [N, h]
  Tensor hidden;  ///< φ(up), or φ(gate) ∘ up [N, h]
  Tensor out;     ///< hidden W_downᵀ [N, D]
};

/// MLP module of `layer` on its (normalised) input x [N, D].
MlpSignals mlp_signals(const StackContext& context, int layer, const Tensor& x);

/// The module's output alone [N, D].
Tensor mlp_forward(const StackContext& context, int layer, const Tensor& x);

/// Gradient of x from that of the output, dy [N, D]. `signals` are those of x.
Tensor mlp_backward(const StackContext& context, int layer, const Tensor& x, const MlpSignals& signals,
                    const Tensor& dy, GradientObserver& observer);

}  // namespace periscope
