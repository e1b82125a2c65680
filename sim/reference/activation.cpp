#include <cmath>
#include <numbers>

#include "sim/reference/ops.h"

namespace periscope {
namespace {

double activation(Activation kind, double x) {
  switch (kind) {
    case Activation::relu: return x < 0.0 ? 0.0 : x;  // keeps NaN
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
      return 1.0 / (1.0 + std::exp(-x)) / (1.0 + std::exp(x));  // σ(x)σ(−x): 1 − σ(x) would cancel
    case Activation::gelu_tanh: {
      const double c = std::sqrt(2.0 / std::numbers::pi);
      const double u = c * (x + 0.044715 * x * x * x);
      const double du = c * (1.0 + 3.0 * 0.044715 * x * x);
      const double sigmoid = 1.0 / (1.0 + std::exp(-2.0 * u));
      const double other = 1.0 / (1.0 + std::exp(2.0 * u));
      return sigmoid * other == 0.0 ? sigmoid : sigmoid * (1.0 + 2.0 * x * du * other);  // where x·du may overflow
    }
  }
  return 0.0;
}

}  // namespace

void ReferenceBackend::do_activate(Activation kind, const Tensor& x, Tensor& y) const {
  const double* in = elements<double>(x);
  double* out = elements<double>(y);
  for (Index i = 0; i < x.size(); ++i) out[i] = activation(kind, in[i]);
}

void ReferenceBackend::do_activate_backward(Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) const {
  const double* in = elements<double>(x);
  double* out = elements<double>(dx);
  for (Index i = 0; i < x.size(); ++i) out[i] = activation_derivative(kind, in[i]) * elements<double>(dy)[i];
}

void ReferenceBackend::do_soft_cap(double cap, const Tensor& x, Tensor& y) const {
  const double* in = elements<double>(x);
  double* out = elements<double>(y);
  for (Index i = 0; i < x.size(); ++i) out[i] = cap * std::tanh(in[i] / cap);
}

void ReferenceBackend::do_soft_cap_backward(double cap, const Tensor& x, const Tensor& dy, Tensor& dx) const {
  const double* in = elements<double>(x);
  double* out = elements<double>(dx);
  for (Index i = 0; i < x.size(); ++i) {
    const double t = std::tanh(in[i] / cap);
    out[i] = (1.0 - t * t) * elements<double>(dy)[i];
  }
}

}  // namespace periscope
