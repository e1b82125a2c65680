#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {
namespace {

constexpr Index chunk = 4096;

/// Calls body(first, count) for consecutive chunks of 0 … size−1.
template <class Body>
void for_chunks(Index size, const Body& body) {
#pragma omp parallel for schedule(static)
  for (Index first = 0; first < size; first += chunk) body(first, std::min(chunk, size - first));
}

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

}  // namespace

template <class T>
void axpby(double a, const T* x, double b, const T* y, T* z, Index size) {
  for_chunks(size, [&](Index first, Index count) {
    Row<T>(z + first, count) =
        static_cast<T>(a) * ConstRow<T>(x + first, count) + static_cast<T>(b) * ConstRow<T>(y + first, count);
  });
}

template <class T>
void scale(double a, const T* x, T* y, Index size) {
  for_chunks(size, [&](Index first, Index count) {
    Row<T>(y + first, count) = static_cast<T>(a) * ConstRow<T>(x + first, count);
  });
}

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
void norm(NormKind kind, const T* x, const T* gain, const T* bias, double eps, T* y, Index parts, Index n) {
  const ConstRow<T> scale(gain, n);
#pragma omp parallel for schedule(static)
  for (Index part = 0; part < parts; ++part) {
    const ConstRow<T> in(x + part * n, n);
    const double mean = kind == NormKind::layer ? in.template cast<double>().mean() : 0.0;
    const double square = (in.template cast<double>() - mean).square().mean();
    const double rms = std::sqrt(square + eps);
    const double inverse = rms == 0.0 ? 0.0 : 1.0 / rms;
    Row<T> out(y + part * n, n);
    out = scale * ((in.template cast<double>() - mean) * inverse).template cast<T>();
    if (bias != nullptr) out += ConstRow<T>(bias, n);
  }
}

template void axpby<double>(double, const double*, double, const double*, double*, Index);
template void axpby<float>(double, const float*, double, const float*, float*, Index);
template void scale<double>(double, const double*, double*, Index);
template void scale<float>(double, const float*, float*, Index);
template void activate<double>(Activation, const double*, double*, Index);
template void activate<float>(Activation, const float*, float*, Index);
template void gated<double>(Activation, const double*, const double*, double*, Index);
template void gated<float>(Activation, const float*, const float*, float*, Index);
template void norm<double>(NormKind, const double*, const double*, const double*, double, double*, Index, Index);
template void norm<float>(NormKind, const float*, const float*, const float*, double, float*, Index, Index);

}  // namespace periscope::cpu
