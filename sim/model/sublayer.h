#pragma once

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// The module of a sublayer: from its (normalised) input A_out [N, D] to f_out [N, D].
Tensor attention_forward(SublayerPass& pass, const Tensor& a_out);
Tensor mlp_forward(SublayerPass& pass, const Tensor& a_out);

/// Gradient of A_out from that of f_out.
Tensor attention_backward(SublayerPass& pass, const Tensor& df_out);
Tensor mlp_backward(SublayerPass& pass, const Tensor& df_out);

/// The streams between sublayers, each [N, D], or their gradients. `second` is ResiDual's r, empty if there is none.
struct Streams {
  Tensor x;
  Tensor second = {};
};

/// T1 for one sublayer: x⁺ = C( alpha·x + beta·B( f( input_gain·A(x) ) ) ) and r⁺ = r + beta·B(…).
Streams sublayer_forward(SublayerPass& pass, const Streams& in);

/// Gradients of the streams that entered from those of the streams that left. That of r is the same on both sides.
/// The pass must have kept what the backward pass needs.
Streams sublayer_backward(SublayerPass& pass, const Streams& out);

}  // namespace periscope
