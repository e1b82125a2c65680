#pragma once

#include "sim/core/tensor.h"
#include "sim/numerics/rounding.h"

namespace periscope {

/// Products of matrices whose sums are accumulated in a format: a product of two entries enters the running sum
/// unrounded, and every partial sum is rounded, the terms in the order of their index (an Emulation that is `fused`,
/// SumOrder::sequential). Tensors are f32 in host memory, of numbers of at most 12 bits each, so that the product of
/// two is exact. The running sum and the product are added in double and rounded from there, which differs from a
/// single rounding only next to a tie.

/// y = x Wᵀ: x [N, in], w [out, in] → [N, out].
Tensor rounded_linear(const Tensor& x, const Tensor& w, const Rounding& sums);
/// dx = dy W: dy [N, out], w [out, in] → [N, in].
Tensor rounded_linear_backward_input(const Tensor& dy, const Tensor& w, const Rounding& sums);
/// dW = dyᵀ x: dy [N, out], x [N, in] → [out, in].
Tensor rounded_linear_backward_weight(const Tensor& dy, const Tensor& x, const Rounding& sums);

}  // namespace periscope
