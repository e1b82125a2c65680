#pragma once

#include "sim/model/attention.h"
#include "sim/model/mlp.h"

namespace periscope {

/// T1's signals of one sublayer, x⁺ = C( alpha·x + beta·B( f( input_gain·A(x) ) ) ), all [N, D] but those inside
/// the module f.
struct SublayerSignals {
  Tensor a_out;                ///< input_gain·A(x), the module's input
  AttentionSignals attention;  ///< in an attention sublayer
  MlpSignals mlp;              ///< in an MLP sublayer
  Tensor f_out;
  Tensor b_out;  ///< the branch
  Tensor sum;    ///< alpha·x + beta·b_out, what norm C sees
  Tensor x_out;
};

/// Sublayer 0 … 2L−1 on the stream x [N, D].
SublayerSignals sublayer_forward(const StackContext& context, int sublayer, const Tensor& x);

/// Gradient of x [N, D] from that of x_out. `dr` is the gradient of ResiDual's second stream r⁺ = r + beta·b_out,
/// empty if there is none; it is the gradient of r as well. All signals are computed again from x, so that
/// nothing else needs to be kept, and every weight is fetched once.
Tensor sublayer_backward(const StackContext& context, int sublayer, const Tensor& x, const Tensor& dx_out,
                         const Tensor& dr, GradientObserver& observer);

}  // namespace periscope
