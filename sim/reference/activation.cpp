#include <cmath>
#include <numbers>

#include "sim/reference/ops.h"

namespace periscope {
namespace {

double activation(Activation kind, double x) {
  switch (kind) {
    case Activation::relu: return x < 0.0 ? 0.0 : x;  // propagates NaN
    case Activation::gelu: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::sigmoid: return 1.0 / (1.0 + std::exp(-x));
    case Activation::gelu_tanh: {
      // ½(1 + tanh u) = 1/(1 + e^(−2u)), without cancellation in the left tail
      const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1.0 + std::exp(-2.0 * u));
    }
  }
  return 0.0;
}

double activation_derivative(Activation kind, double x) {
  switch (kind) {
    case Activation::relu: return x <= 0.0 ? 0.0 : 1.0;
    case Activation::gelu: {
      const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
    }
    case Activation::silu: {
      const double sigmoid = 1.0 / (1.0 + std::exp(-x));
      return sigmoid * (1.0 + x / (1.0 + std::exp(x)));  // 1 − σ(x) = σ(−x), without cancellation
    }
    case Activation::sigmoid:
      return 1.0 / (1.0 + std::exp(-x)) / (1.0 + std::exp(x));  // σ(x)σ(−x), since 1 − σ(x) suffers cancellation
    case Activation::gelu_tanh: {
      const double c = std::sqrt(2.0 / std::numbers::pi);
      const double u = c * (x + 0.044715 * x * x * x);
      const double du = c * (1.0 + 3.0 * 0.044715 * x * x);
      const double sigmoid = 1.0 / (1.0 + std::exp(-2.0 * u));
      const double other = 1.0 / (1.0 + std::exp(2.0 * u));
      // If either factor underflows, x·du may overflow.
      return sigmoid * other == 0.0 ? sigmoid : sigmoid * (1.0 + 2.0 * x * du * other);
    }
  }
  return 0.0;
}

}  // namespace

void ReferenceBackend::run(const op::Activate& o) const {
  const double* in = elements<double>(o.x);
  double* out = elements<double>(o.y);
  for (Index i = 0; i < o.x.size(); ++i) out[i] = activation(o.kind, in[i]);
}

void ReferenceBackend::run(const op::ActivateBackward& o) const {
  const double* in = elements<double>(o.x);
  double* out = elements<double>(o.dx);
  for (Index i = 0; i < o.x.size(); ++i) out[i] = activation_derivative(o.kind, in[i]) * elements<double>(o.dy)[i];
}

void ReferenceBackend::run(const op::SoftCap& o) const {
  const double* in = elements<double>(o.x);
  double* out = elements<double>(o.y);
  for (Index i = 0; i < o.x.size(); ++i) out[i] = o.cap * std::tanh(in[i] / o.cap);
}

void ReferenceBackend::run(const op::SoftCapBackward& o) const {
  const double* in = elements<double>(o.x);
  double* out = elements<double>(o.dx);
  for (Index i = 0; i < o.x.size(); ++i) {
    const double t = std::tanh(in[i] / o.cap);
    out[i] = (1.0 - t * t) * elements<double>(o.dy)[i];
  }
}

}  // namespace periscope
