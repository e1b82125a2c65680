#include <cmath>
#include <numbers>

#include "sim/cuda/elementwise.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Returns u = 2√(2/π)(x + 0.044715x³), twice the argument of tanh in gelu_tanh(x) = x·σ(u).
template <class C>
PERISCOPE_HOST_DEVICE C tanh_argument(C x) {
  constexpr C linear = static_cast<C>(2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  constexpr C cubic = static_cast<C>(0.044715);
  return linear * x * (C(1) + cubic * x * x);
}

template <class C>
PERISCOPE_HOST_DEVICE C tanh_slope(C x) {
  constexpr C linear = static_cast<C>(2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  constexpr C cubic = static_cast<C>(3.0 * 0.044715);
  return linear * (C(1) + cubic * x * x);
}

template <class C>
PERISCOPE_HOST_DEVICE C activation(Activation kind, C x) {
  constexpr C half_root = static_cast<C>(1.0 / std::numbers::sqrt2);
  switch (kind) {
    case Activation::relu: return x < C(0) ? C(0) : x;  // propagates NaN
    case Activation::gelu: return C(0.5) * x * std::erfc(-x * half_root);
    case Activation::silu: return x / (C(1) + std::exp(-x));
    case Activation::sigmoid: return C(1) / (C(1) + std::exp(-x));
    case Activation::gelu_tanh: return x / (C(1) + std::exp(-tanh_argument(x)));
  }
  return C(0);
}

template <class C>
PERISCOPE_HOST_DEVICE C activation_derivative(Activation kind, C x) {
  constexpr C half_root = static_cast<C>(1.0 / std::numbers::sqrt2);
  constexpr C peak = static_cast<C>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);  // maximum of the normal density
  switch (kind) {
    case Activation::relu: return x <= C(0) ? C(0) : C(1);
    case Activation::gelu: return C(0.5) * std::erfc(-x * half_root) + peak * x * std::exp(C(-0.5) * x * x);
    case Activation::silu:
      return (C(1) + x / (C(1) + std::exp(x))) / (C(1) + std::exp(-x));  // 1 − σ(x) = σ(−x), without cancellation
    case Activation::sigmoid:
      return C(1) / (C(1) + std::exp(-x)) / (C(1) + std::exp(x));  // σ(x)σ(−x), since 1 − σ(x) suffers cancellation
    case Activation::gelu_tanh: {
      const C u = tanh_argument(x);
      const C left = C(1) / (C(1) + std::exp(-u));
      const C right = C(1) / (C(1) + std::exp(u));  // 1 − σ(u), without cancellation
      return left * right == C(0) ? left : left * (C(1) + x * tanh_slope(x) * right);
    }
  }
  return C(0);
}

struct Activate {
  Activation kind;
  template <class C>
  PERISCOPE_HOST_DEVICE C operator()(C x) const {
    return activation(kind, x);
  }
};

struct ActivateBackward {
  Activation kind;
  template <class C>
  PERISCOPE_HOST_DEVICE C operator()(C x, C dy) const {
    return activation_derivative(kind, x) * dy;
  }
};

/// φ(gate) ∘ up. φ(gate) is rounded to T first, so that the result is the same as with separate ops.
template <class T>
struct Gate {
  Activation kind;
  PERISCOPE_HOST_DEVICE Computed<T> operator()(Computed<T> gate, Computed<T> up) const {
    return widen(narrow<T>(activation(kind, gate))) * up;
  }
};

template <class T>
struct GateBackward {
  Activation kind;
  In<T> gate;
  In<T> up;
  In<T> dy;
  Out<T> dgate;
  Out<T> dup;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const Computed<T> x = widen(gate[i]);
    const Computed<T> slope = widen(dy[i]);
    dgate[i] = narrow<T>(widen(narrow<T>(activation_derivative(kind, x) * slope)) * widen(up[i]));
    dup[i] = narrow<T>(widen(narrow<T>(activation(kind, x))) * slope);
  }
};

struct SoftCap {
  double cap;
  template <class C>
  PERISCOPE_HOST_DEVICE C operator()(C x) const {
    const C c = static_cast<C>(cap);
    return c * std::tanh(x / c);
  }
};

struct SoftCapBackward {
  double cap;
  template <class C>
  PERISCOPE_HOST_DEVICE C operator()(C x, C dy) const {
    const C t = std::tanh(x / static_cast<C>(cap));
    return (C(1) - t * t) * dy;
  }
};

}  // namespace

void CudaBackend::run(const op::Activate& o) const { unary(execution_, o.x, o.y, Activate{o.kind}); }

void CudaBackend::run(const op::ActivateBackward& o) const {
  binary(execution_, o.x, o.dy, o.dx, ActivateBackward{o.kind});
}

void CudaBackend::run(const op::Gated& o) const {
  with_type(o.gate.dtype(), [&]<class T>(T) {
    for_each(execution_, o.gate.size(),
             Binary<T, Gate<T>>{data<T>(o.gate), data<T>(o.up), data<T>(o.y), Gate<T>{o.kind}});
  });
}

void CudaBackend::run(const op::GatedBackward& o) const {
  with_type(o.gate.dtype(), [&]<class T>(T) {
    for_each(
        execution_, o.gate.size(),
        GateBackward<T>{o.kind, data<T>(o.gate), data<T>(o.up), data<T>(o.dy), data<T>(o.g.dgate), data<T>(o.g.dup)});
  });
}

void CudaBackend::run(const op::SoftCap& o) const { unary(execution_, o.x, o.y, SoftCap{o.cap}); }

void CudaBackend::run(const op::SoftCapBackward& o) const {
  binary(execution_, o.x, o.dy, o.dx, SoftCapBackward{o.cap});
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
