#include <cmath>
#include <numbers>

#include "sim/cpu/chunks.h"
#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {
namespace {

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
template void gated_backward<float>(Activation, const float*, const float*, const float*, float*, float*, Index);

}  // namespace periscope::cpu
