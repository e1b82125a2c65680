#pragma once

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// MLP module of a sublayer: from its (normalised) input A_out [N, D] to f_out [N, D].
Tensor mlp_forward(SublayerPass& pass, const Tensor& a_out);

/// Gradient of A_out from that of f_out.
Tensor mlp_backward(SublayerPass& pass, const Tensor& df_out);

}  // namespace periscope
