#include <cmath>

#include "sim/cuda/elementwise.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// AdamW step of one element; the host computes the coefficients in double.
template <class T>
struct AdamStep {
  Out<T> parameter;
  Out<T> mean;
  Out<T> square;
  In<T> gradient;
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

void CudaBackend::run(const op::Adamw& o) const {
  with_type(o.gradient.dtype(), [&]<class T>(T) {
    const double steps = static_cast<double>(o.rule.step);
    const auto wide = [](double x) { return static_cast<Computed<T>>(x); };
    for_each(execution_, o.gradient.size(),
             AdamStep<T>{.parameter = data<T>(o.state.parameter),
                         .mean = data<T>(o.state.mean),
                         .square = data<T>(o.state.square),
                         .gradient = data<T>(o.gradient),
                         .beta1 = wide(o.rule.beta1),
                         .beta2 = wide(o.rule.beta2),
                         .new_mean = wide(1.0 - o.rule.beta1),
                         .new_square = wide(1.0 - o.rule.beta2),
                         .scale = wide(o.rule.gradient_scale),
                         .keep = wide(1.0 - o.rule.decay),
                         .rate = wide(o.rule.rate / (1.0 - std::pow(o.rule.beta1, steps))),
                         .root_scale = wide(1.0 / std::sqrt(1.0 - std::pow(o.rule.beta2, steps))),
                         .eps = wide(o.rule.eps)});
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
