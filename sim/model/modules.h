#pragma once

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// Modules of a sublayer, from their input A_out [N, D] to f_out [N, D].
Tensor attention_forward(SublayerPass& pass, const Tensor& a_out);
Tensor mlp_forward(SublayerPass& pass, const Tensor& a_out);

/// Gradient of A_out, given the gradient of f_out.
Tensor attention_backward(SublayerPass& pass, const Tensor& df_out);
Tensor mlp_backward(SublayerPass& pass, const Tensor& df_out);

}  // namespace periscope
