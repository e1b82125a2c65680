#pragma once

#include "sim/cuda/launch.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// y_i = f(x_i), computed in Computed<T> and rounded once. f must be a host-device function.
template <class T, class F>
struct Unary {
  In<T> x;
  Out<T> y;
  F f;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = narrow<T>(f(widen(x[i]))); }
};

/// z_i = f(x_i, y_i).
template <class T, class F>
struct Binary {
  In<T> x;
  In<T> y;
  Out<T> z;
  F f;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { z[i] = narrow<T>(f(widen(x[i]), widen(y[i]))); }
};

template <class F>
void unary(const Execution& execution, const Tensor& x, Tensor& y, const F& f) {
  with_type(x.dtype(), [&]<class T>(T) { for_each(execution, x.size(), Unary<T, F>{data<T>(x), data<T>(y), f}); });
}

template <class F>
void binary(const Execution& execution, const Tensor& x, const Tensor& y, Tensor& z, const F& f) {
  with_type(x.dtype(), [&]<class T>(T) {
    for_each(execution, x.size(), Binary<T, F>{data<T>(x), data<T>(y), data<T>(z), f});
  });
}

/// Converts between element types with a single rounding.
template <class From, class To>
struct Convert {
  In<From> x;
  Out<To> y;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = from_double<To>(static_cast<double>(widen(x[i]))); }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
