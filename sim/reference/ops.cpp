#include "sim/reference/ops.h"

#include <cmath>
#include <numbers>

namespace periscope::reference {

void linear(const double* x, const double* w, double* y, Index rows, Index in, Index out) {
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < out; ++j) {
      double sum = 0.0;
      for (Index k = 0; k < in; ++k) sum += x[i * in + k] * w[j * in + k];
      y[i * out + j] = sum;
    }
  }
}

void norm(NormKind kind, const double* x, const double* gain, const double* bias, double eps, double* y, Index n) {
  double mean = 0.0;
  if (kind == NormKind::layer) {
    for (Index i = 0; i < n; ++i) mean += x[i];
    mean /= static_cast<double>(n);
  }
  double square = 0.0;
  for (Index i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
  const double rms = std::sqrt(square / static_cast<double>(n) + eps);
  for (Index i = 0; i < n; ++i) {
    y[i] = rms == 0.0 ? 0.0 : gain[i] * (x[i] - mean) / rms;
    if (bias != nullptr) y[i] += bias[i];
  }
}

void rope(const double* x, double* y, Index head_dim, Index position, std::span<const double> frequencies) {
  const Index half = head_dim / 2;
  for (Index i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies[static_cast<std::size_t>(i)];
    y[i] = x[i] * std::cos(angle) - x[i + half] * std::sin(angle);
    y[i + half] = x[i + half] * std::cos(angle) + x[i] * std::sin(angle);
  }
}

double score(const AttentionShape& shape, double dot) {
  const double z = shape.scale() * dot;
  return shape.scores.soft_cap > 0.0 ? soft_cap(shape.scores.soft_cap, z) : z;
}

void attention(const double* q, const double* k, const double* v, double* y, double* scores, Index rows,
               const AttentionShape& shape) {
  const Index tokens = rows / shape.sequences;
  const Index e = shape.head_dim;
  const Index q_stride = shape.heads * e;
  const Index kv_stride = shape.kv_heads * e;
  std::vector<double> weight(static_cast<std::size_t>(tokens));
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index head = 0; head < shape.heads; ++head) {
      const Index kv_head = head / (shape.heads / shape.kv_heads);
      for (Index t = 0; t < tokens; ++t) {
        const double* query = q + (sequence * tokens + t) * q_stride + head * e;
        const Index first = shape.first_seen(t);
        const Index end = shape.end_seen(t, tokens);
        double largest = -HUGE_VAL;
        double& magnitude = scores[(sequence * tokens + t) * shape.heads + head];
        magnitude = 0.0;
        for (Index s = first; s < end; ++s) {
          const double* key = k + (sequence * tokens + s) * kv_stride + kv_head * e;
          double dot = 0.0;
          for (Index i = 0; i < e; ++i) dot += query[i] * key[i];
          const double z = weight[static_cast<std::size_t>(s)] = score(shape, dot);
          largest = std::max(largest, z);
          if (std::isnan(z) || std::abs(z) > magnitude) magnitude = std::abs(z);  // NaN stays
        }
        double total = 0.0;
        for (Index s = first; s < end; ++s) {
          double& w = weight[static_cast<std::size_t>(s)];
          w = std::exp(w - largest);
          total += w;
        }
        double* out = y + (sequence * tokens + t) * q_stride + head * e;
        for (Index i = 0; i < e; ++i) {
          out[i] = 0.0;
          for (Index s = first; s < end; ++s) {
            out[i] +=
                weight[static_cast<std::size_t>(s)] / total * v[(sequence * tokens + s) * kv_stride + kv_head * e + i];
          }
        }
      }
    }
  }
}

double soft_cap(double cap, double x) { return cap * std::tanh(x / cap); }

double activation(Activation kind, double x) {
  switch (kind) {
    case Activation::relu: return x < 0.0 ? 0.0 : x;  // keeps NaN
    case Activation::gelu: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh: {
      // ½(1 + tanh u) = 1/(1 + e^(−2u)), without cancellation in the left tail
      const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1.0 + std::exp(-2.0 * u));
    }
  }
  return 0.0;
}

}  // namespace periscope::reference
