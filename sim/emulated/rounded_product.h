#pragma once

#include "sim/core/tensor.h"
#include "sim/numerics/rounding.h"

namespace periscope {

/// Matrix products that accumulate in a given format: `sums` rounds every partial sum but not the products
/// (a `fused` Emulation with SumOrder::sequential). Tensors are f32 in host memory, and their entries must have at most
/// 12 significant bits, so that products are exact. Partial sums are computed in double and then rounded, which differs
/// from a single rounding only for sums very close to a tie.

/// y = x Wᵀ: x [N, in], w [out, in] → [N, out].
Tensor rounded_linear(const Tensor& x, const Tensor& w, const Rounding& sums);
/// dx = dy W: dy [N, out], w [out, in] → [N, in].
Tensor rounded_linear_backward_input(const Tensor& dy, const Tensor& w, const Rounding& sums);
/// dW = dyᵀ x: dy [N, out], x [N, in] → [out, in].
Tensor rounded_linear_backward_weight(const Tensor& dy, const Tensor& x, const Rounding& sums);

}  // namespace periscope
