#pragma once

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// The streams between sublayers, each [N, D], or their gradients. `second` is ResiDual's r, empty if there is none.
struct Streams {
  Tensor x;
  Tensor second = {};
};

/// T1 for one sublayer: x⁺ = C( alpha·x + beta·B( f( input_gain·A(x) ) ) ) and r⁺ = r + beta·B(…).
Streams sublayer_forward(SublayerPass& pass, const Streams& in);

/// Gradients of the streams that entered from those of the streams that left. That of r is the same on both sides.
/// The pass must have kept what the way back needs.
Streams sublayer_backward(SublayerPass& pass, const Streams& out);

}  // namespace periscope
