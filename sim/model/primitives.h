#pragma once

#include "sim/model/context.h"
#include "sim/model/observer.h"

/// The two parts of a stack that hold parameters, forward and backward. A backward function takes the
/// part's input and the gradient of its output, tells the observer the gradient of the parameters, and
/// returns the gradient of the input.
namespace periscope {

/// y = x Wᵀ + b for a matrix of the stack: x [N, fan_in] → [N, fan_out].
Tensor linear_forward(const StackContext& context, int layer, Weight weight, const Tensor& x);
Tensor linear_backward(const StackContext& context, int layer, Weight weight, const Tensor& x, const Tensor& dy,
                       GradientObserver& observer);

/// The norm of a site: x [N, D] → [N, D]. The QK-norms are RMSNorms of every head or of the whole projection.
Tensor norm_forward(const StackContext& context, int sublayer, NormSite site, const Tensor& x);
Tensor norm_backward(const StackContext& context, int sublayer, NormSite site, const Tensor& x, const Tensor& dy,
                     GradientObserver& observer);

}  // namespace periscope
