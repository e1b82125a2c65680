#include <cmath>

#include "sim/cuda/elementwise.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_WAY {
namespace {

/// AdamW on one element; the weights of a step are made on the host, in double.
template <class T>
struct AdamStep {
  T* parameter;
  T* mean;
  T* square;
  const T* gradient;
  Computed<T> beta1, beta2, new_mean, new_square, scale, keep, rate, root_scale, eps;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const Computed<T> g = scale * widen(gradient[i]);
    const Computed<T> m = beta1 * widen(mean[i]) + new_mean * g;
    const Computed<T> v = beta2 * widen(square[i]) + new_square * g * g;
    mean[i] = narrow<T>(m);
    square[i] = narrow<T>(v);
    parameter[i] = narrow<T>(keep * widen(parameter[i]) - rate * m / (root_scale * std::sqrt(v) + eps));
  }
};

}  // namespace

// -------------------------------------------------------------------------------------------------

void CudaBackend::do_adamw(AdamState& state, const Tensor& gradient, const AdamRule& rule) const {
  with_type(gradient.dtype(), [&]<class T>(T) {
    const double steps = static_cast<double>(rule.step);
    const auto wide = [](double x) { return static_cast<Computed<T>>(x); };
    for_each(execution_, gradient.size(),
             AdamStep<T>{.parameter = data<T>(state.parameter),
                         .mean = data<T>(state.mean),
                         .square = data<T>(state.square),
                         .gradient = data<T>(gradient),
                         .beta1 = wide(rule.beta1),
                         .beta2 = wide(rule.beta2),
                         .new_mean = wide(1.0 - rule.beta1),
                         .new_square = wide(1.0 - rule.beta2),
                         .scale = wide(rule.gradient_scale),
                         .keep = wide(1.0 - rule.decay),
                         .rate = wide(rule.rate / (1.0 - std::pow(rule.beta1, steps))),
                         .root_scale = wide(1.0 / std::sqrt(1.0 - std::pow(rule.beta2, steps))),
                         .eps = wide(rule.eps)});
  });
}

}  // namespace PERISCOPE_CUDA_WAY
}  // namespace periscope::cuda
