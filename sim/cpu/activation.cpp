#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/cpu/ops.h"

namespace periscope {
namespace cpu {
namespace {

/// gelu_tanh is x·σ(u(x)) with u(x) = 2√(2/π)(x + 0.044715x³).
template <class T>
constexpr T tanh_linear = static_cast<T>(2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
template <class T>
constexpr T tanh_cubic = static_cast<T>(0.044715);

/// Returns s·(1 + x·(1 − s)) for s = σ(x) and e = exp(−x). For positive x, e·s replaces 1 − s to avoid cancellation.
template <class T, class X, class E, class S>
auto silu_derivative(const X& x, const E& e, const S& s) {
  return s * (T(1) + x * (x > T(0)).select(e * s, T(1) - s));
}

template <class T>
void activate_chunk(Activation kind, const ConstRow<T>& x, Row<T>& y) {
  switch (kind) {
    case Activation::relu:
      y = x.unaryExpr([](T v) { return v < T(0) ? T(0) : v; });  // propagates NaN, unlike max
      return;
    case Activation::silu: y = x * (T(1) / (T(1) + (-x).exp())); return;
    case Activation::sigmoid: y = T(1) / (T(1) + (-x).exp()); return;
    case Activation::gelu:
      // erfc has full relative precision in the left tail
      y = x.unaryExpr([](T v) { return T(0.5) * v * std::erfc(-v / std::numbers::sqrt2_v<T>); });
      return;
    case Activation::gelu_tanh:
      y = x / (T(1) + (-tanh_linear<T> * x * (T(1) + tanh_cubic<T> * x.square())).exp());
      return;
  }
}

/// Number of elements processed at a time by ops with two passes, so that the second pass reads from the cache.
constexpr Index cached_elements = 1024;

/// y = φ'(x) for φ = silu. y may be x's memory, so the exponentials need a buffer. The buffer is aligned because Eigen
/// uses a different exp before the first aligned address: results would depend on the stack address.
template <class T>
void silu_derivative_chunk(const ConstRow<T>& x, Row<T>& y) {
  alignas(64) T exponentials[cached_elements];
  for (Index i = 0; i < x.size(); i += cached_elements) {
    const Index count = std::min(cached_elements, x.size() - i);
    const ConstRow<T> at(x.data() + i, count);
    Row<T> e(exponentials, count);
    e = (-at).exp();
    Row<T>(y.data() + i, count) = silu_derivative<T>(at, e, T(1) / (T(1) + e));
  }
}

/// y = φ'(x); y may be x's memory.
template <class T>
void derivative_chunk(Activation kind, const ConstRow<T>& x, Row<T>& y) {
  switch (kind) {
    case Activation::relu: y = x.unaryExpr([](T v) { return v <= T(0) ? T(0) : T(1); }); return;
    case Activation::silu: silu_derivative_chunk<T>(x, y); return;
    case Activation::sigmoid:
      y = x.unaryExpr([](T v) {
        return T(1) / (T(1) + std::exp(-v)) / (T(1) + std::exp(v));  // σ(v)σ(−v), because 1 − σ(v) would cancel
      });
      return;
    case Activation::gelu:
      y = x.unaryExpr([](T v) {
        constexpr T peak = std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
        return T(0.5) * std::erfc(-v / std::numbers::sqrt2_v<T>) + peak * v * std::exp(T(-0.5) * v * v);
      });
      return;
    case Activation::gelu_tanh:
      y = x.unaryExpr([](T v) {
        const T u = tanh_linear<T> * v * (T(1) + tanh_cubic<T> * v * v);
        const T du = tanh_linear<T> * (T(1) + T(3) * tanh_cubic<T> * v * v);
        const T left = T(1) / (T(1) + std::exp(-u));
        const T right = T(1) / (T(1) + std::exp(u));  // 1 − σ(u), without cancellation
        return left * right == T(0) ? left : left * (T(1) + v * du * right);
      });
      return;
  }
}

/// Computes both gradients with one exponential: with s = σ(x), silu is x·s and its derivative s·(1 + x·(1 − s)). The
/// results are bitwise identical to the separate ops.
template <class T>
void silu_gated_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, Index size) {
  const auto chunk = [&](Index first, Index count) {
    const ConstRow<T> x(gate + first, count);
    const ConstRow<T> d(dy + first, count);
    Row<T> s(dup + first, count);
    Row<T> e(dgate + first, count);
    e = (-x).exp();
    s = T(1) / (T(1) + e);
    e = silu_derivative<T>(x, e, s) * d * ConstRow<T>(up + first, count);
    s = x * s * d;
  };
  for_chunks(size, [&](Index first, Index count) {
    for (Index i = 0; i < count; i += cached_elements) chunk(first + i, std::min(cached_elements, count - i));
  });
}

}  // namespace
}  // namespace cpu

using cpu::chunk_of;

void CpuBackend::run(const op::Activate& o) const {
  cpu::for_parts(o.x, [&]<class T>(T, Index first, Index count) {
    cpu::Row<T> y = chunk_of<T>(o.y, first, count);
    cpu::activate_chunk<T>(o.kind, chunk_of<T>(o.x, first, count), y);
  });
}

void CpuBackend::run(const op::ActivateBackward& o) const {
  cpu::for_parts(o.x, [&]<class T>(T, Index first, Index count) {
    cpu::Row<T> dx = chunk_of<T>(o.dx, first, count);
    cpu::derivative_chunk<T>(o.kind, chunk_of<T>(o.x, first, count), dx);
    dx *= chunk_of<T>(o.dy, first, count);
  });
}

void CpuBackend::run(const op::Gated& o) const {
  cpu::for_parts(o.gate, [&]<class T>(T, Index first, Index count) {
    cpu::Row<T> y = chunk_of<T>(o.y, first, count);
    cpu::activate_chunk<T>(o.kind, chunk_of<T>(o.gate, first, count), y);
    y *= chunk_of<T>(o.up, first, count);
  });
}

void CpuBackend::run(const op::GatedBackward& o) const {
  if (o.kind != Activation::silu) {
    run(op::ActivateBackward{o.kind, o.gate, o.dy, o.g.dgate});
    run(op::Multiply{o.g.dgate, o.up, o.g.dgate});
    return run(op::Gated{o.kind, o.gate, o.dy, o.g.dup});
  }
  cpu::with_type_of(o.gate, [&]<class T>(T) {
    cpu::silu_gated_backward(elements<T>(o.gate), elements<T>(o.up), elements<T>(o.dy), elements<T>(o.g.dgate),
                             elements<T>(o.g.dup), o.gate.size());
  });
}

void CpuBackend::run(const op::SoftCap& o) const {
  cpu::for_parts(o.x, [&]<class T>(T, Index first, Index count) {
    const T c = static_cast<T>(o.cap);
    chunk_of<T>(o.y, first, count) = c * (chunk_of<T>(o.x, first, count) / c).tanh();
  });
}

void CpuBackend::run(const op::SoftCapBackward& o) const {
  cpu::for_parts(o.x, [&]<class T>(T, Index first, Index count) {
    const T c = static_cast<T>(o.cap);
    chunk_of<T>(o.dx, first, count) =
        chunk_of<T>(o.dy, first, count) * (T(1) - (chunk_of<T>(o.x, first, count) / c).tanh().square());
  });
}

}  // namespace periscope
