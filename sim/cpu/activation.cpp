#include <cmath>
#include <numbers>

#include "sim/cpu/chunks.h"
#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {
namespace {

/// gelu_tanh is x·σ(u(x)) with u an odd polynomial: 2√(2/π)(x + 0.044715x³).
template <class T>
constexpr T tanh_slope = static_cast<T>(2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
template <class T>
constexpr T tanh_cubic = static_cast<T>(0.044715);

template <class T>
void activate_chunk(Activation kind, const ConstRow<T>& x, Row<T>& y) {
  switch (kind) {
    case Activation::relu:
      y = x.unaryExpr([](T v) { return v < T(0) ? T(0) : v; });  // keeps NaN, as max need not
      return;
    case Activation::silu: y = x / (T(1) + (-x).exp()); return;
    case Activation::gelu:
      // the complement keeps full relative precision in the left tail
      y = x.unaryExpr([](T v) { return T(0.5) * v * std::erfc(-v / std::numbers::sqrt2_v<T>); });
      return;
    case Activation::gelu_tanh:
      y = x / (T(1) + (-tanh_slope<T> * x * (T(1) + tanh_cubic<T> * x.square())).exp());
      return;
  }
}

/// y = φ'(x).
template <class T>
void slope_chunk(Activation kind, const ConstRow<T>& x, Row<T>& y) {
  switch (kind) {
    case Activation::relu: y = x.unaryExpr([](T v) { return v <= T(0) ? T(0) : T(1); }); return;
    case Activation::silu:
      y = (T(1) + x / (T(1) + x.exp())) / (T(1) + (-x).exp());  // 1 − σ(x) = σ(−x), without cancellation
      return;
    case Activation::gelu:
      y = x.unaryExpr([](T v) {
        constexpr T peak = std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
        return T(0.5) * std::erfc(-v / std::numbers::sqrt2_v<T>) + peak * v * std::exp(T(-0.5) * v * v);
      });
      return;
    case Activation::gelu_tanh:
      y = x.unaryExpr([](T v) {
        const T u = tanh_slope<T> * v * (T(1) + tanh_cubic<T> * v * v);
        const T slope = tanh_slope<T> * (T(1) + T(3) * tanh_cubic<T> * v * v);
        const T left = T(1) / (T(1) + std::exp(-u));
        const T right = T(1) / (T(1) + std::exp(u));  // 1 − σ(u), without cancellation
        return left * right == T(0) ? left : left * (T(1) + v * slope * right);
      });
      return;
  }
}

}  // namespace

template <class T>
void activate(Activation kind, const T* x, T* y, Index size) {
  for_chunks(size, [&](Index first, Index count) {
    Row<T> out(y + first, count);
    activate_chunk<T>(kind, ConstRow<T>(x + first, count), out);
  });
}

template <class T>
void gated(Activation kind, const T* gate, const T* up, T* y, Index size) {
  for_chunks(size, [&](Index first, Index count) {
    Row<T> out(y + first, count);
    activate_chunk<T>(kind, ConstRow<T>(gate + first, count), out);
    out *= ConstRow<T>(up + first, count);
  });
}

template <class T>
void soft_cap(double cap, const T* x, T* y, Index size) {
  const T c = static_cast<T>(cap);
  for_chunks(size, [&](Index first, Index count) {
    Row<T>(y + first, count) = c * (ConstRow<T>(x + first, count) / c).tanh();
  });
}

template <class T>
void soft_cap_backward(double cap, const T* x, const T* dy, T* dx, Index size) {
  const T c = static_cast<T>(cap);
  for_chunks(size, [&](Index first, Index count) {
    Row<T>(dx + first, count) =
        ConstRow<T>(dy + first, count) * (T(1) - (ConstRow<T>(x + first, count) / c).tanh().square());
  });
}

template <class T>
void activate_backward(Activation kind, const T* x, const T* dy, T* dx, Index size) {
  for_chunks(size, [&](Index first, Index count) {
    Row<T> out(dx + first, count);
    slope_chunk<T>(kind, ConstRow<T>(x + first, count), out);
    out *= ConstRow<T>(dy + first, count);
  });
}

template <class T>
void gated_backward(Activation kind, const T* gate, const T* up, const T* dy, T* dgate, T* dup, Index size) {
  activate_backward(kind, gate, dy, dgate, size);
  for_chunks(size, [&](Index first, Index count) {
    Row<T>(dgate + first, count) *= ConstRow<T>(up + first, count);
    Row<T> out(dup + first, count);
    activate_chunk<T>(kind, ConstRow<T>(gate + first, count), out);
    out *= ConstRow<T>(dy + first, count);
  });
}

template void activate<double>(Activation, const double*, double*, Index);
template void activate<float>(Activation, const float*, float*, Index);
template void gated<double>(Activation, const double*, const double*, double*, Index);
template void gated<float>(Activation, const float*, const float*, float*, Index);
template void activate_backward<double>(Activation, const double*, const double*, double*, Index);
template void activate_backward<float>(Activation, const float*, const float*, float*, Index);
template void gated_backward<double>(Activation, const double*, const double*, const double*, double*, double*, Index);
template void soft_cap<double>(double, const double*, double*, Index);
template void soft_cap<float>(double, const float*, float*, Index);
template void soft_cap_backward<double>(double, const double*, const double*, double*, Index);
template void soft_cap_backward<float>(double, const float*, const float*, float*, Index);
template void gated_backward<float>(Activation, const float*, const float*, const float*, float*, float*, Index);

}  // namespace periscope::cpu
