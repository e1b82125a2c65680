#pragma once

#include "sim/cuda/launch.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_WAY {

/// y_i = f(x_i), computed wide and rounded once. f(Computed<T>) is host-and-device.
template <class T, class F>
struct Unary {
  const T* x;
  T* y;
  F f;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = narrow<T>(f(widen(x[i]))); }
};

/// z_i = f(x_i, y_i).
template <class T, class F>
struct Binary {
  const T* x;
  const T* y;
  T* z;
  F f;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { z[i] = narrow<T>(f(widen(x[i]), widen(y[i]))); }
};

template <class T, class F>
void unary(const Execution& execution, const T* x, T* y, Index size, const F& f) {
  for_each(execution, size, Unary<T, F>{x, y, f});
}

template <class T, class F>
void binary(const Execution& execution, const T* x, const T* y, T* z, Index size, const F& f) {
  for_each(execution, size, Binary<T, F>{x, y, z, f});
}

/// Converts between element types.
template <class From, class To>
struct Convert {
  const From* x;
  To* y;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = narrow<To>(widen(x[i])); }
};

}  // namespace PERISCOPE_CUDA_WAY
}  // namespace periscope::cuda
