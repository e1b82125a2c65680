#pragma once

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// What a layer does to the heads' outputs before W_o: mixed ∘ σ(g), where g = W_g A_out has one entry for every query
/// head, which multiplies all of its channels, or one for every channel.

/// g [N, H] or [N, H·e]; empty without gates.
Tensor gate_forward(SublayerPass& p, const Tensor& a_out);
/// mixed∘σ(g) [N, H·e], or `mixed` itself where g is empty.
Tensor gated_heads_forward(SublayerPass& p, const Tensor& mixed, const Tensor& gate);

/// The gradients behind the gate: of the heads' outputs [N, H·e], and through W_g of A_out, empty without gates.
struct GateGradient {
  Tensor dmixed;
  Tensor da_out;
};
GateGradient gated_heads_backward(SublayerPass& p, const Tensor& dgated);

}  // namespace periscope
