#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/reference/ops.h"

namespace periscope::reference {

void linear_backward_input(const double* dy, const double* w, double* dx, Index rows, Index in, Index out) {
  for (Index i = 0; i < rows; ++i) {
    for (Index k = 0; k < in; ++k) {
      double sum = 0.0;
      for (Index j = 0; j < out; ++j) sum += dy[i * out + j] * w[j * in + k];
      dx[i * in + k] = sum;
    }
  }
}

void linear_backward_weight(const double* dy, const double* x, double* dw, Index rows, Index in, Index out) {
  for (Index j = 0; j < out; ++j) {
    for (Index k = 0; k < in; ++k) {
      double sum = 0.0;
      for (Index i = 0; i < rows; ++i) sum += dy[i * out + j] * x[i * in + k];
      dw[j * in + k] = sum;
    }
  }
}

void norm_backward(NormKind kind, const double* x, const double* gain, const double* dy, double eps, double* dx,
                   double* dgain, double* dbias, Index n) {
  const auto count = static_cast<double>(n);
  double mean = 0.0;
  if (kind == NormKind::layer) {
    for (Index i = 0; i < n; ++i) mean += x[i] / count;
  }
  double square = 0.0;
  for (Index i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean) / count;
  const double rms = std::sqrt(square + eps);
  double mean_g = 0.0;
  double mean_gx = 0.0;
  for (Index i = 0; i < n; ++i) {
    const double normalised = rms == 0.0 ? 0.0 : (x[i] - mean) / rms;
    const double g = gain[i] * dy[i];
    mean_g += g / count;
    mean_gx += g * normalised / count;
    dgain[i] += dy[i] * normalised;
    dbias[i] += dy[i];
  }
  if (kind == NormKind::rms) mean_g = 0.0;
  for (Index i = 0; i < n; ++i) {
    dx[i] = rms == 0.0 ? 0.0 : (gain[i] * dy[i] - mean_g - (x[i] - mean) / rms * mean_gx) / rms;
  }
}

void rope_backward(const double* dy, double* dx, Index head_dim, Index position, std::span<const double> frequencies) {
  const Index half = head_dim / 2;
  for (Index i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies[static_cast<std::size_t>(i)];
    dx[i] = dy[i] * std::cos(angle) + dy[i + half] * std::sin(angle);
    dx[i + half] = dy[i + half] * std::cos(angle) - dy[i] * std::sin(angle);
  }
}

/// ∂score/∂(q·k).
double score_slope(const AttentionShape& shape, double dot) {
  const double cap = shape.scores.soft_cap;
  return shape.scale() * (cap > 0.0 ? soft_cap_slope(cap, shape.scale() * dot) : 1.0);
}

void attention_backward(const double* q, const double* k, const double* v, const double* dy, double* dq, double* dk,
                        double* dv, Index rows, const AttentionShape& shape) {
  const Index tokens = rows / shape.sequences;
  const Index e = shape.head_dim;
  const auto dot = [e](const double* a, const double* b) {
    double sum = 0.0;
    for (Index i = 0; i < e; ++i) sum += a[i] * b[i];
    return sum;
  };
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index head = 0; head < shape.heads; ++head) {
      const Index kv_head = head / (shape.heads / shape.kv_heads);
      const auto query_at = [&](Index t) { return ((sequence * tokens + t) * shape.heads + head) * e; };
      const auto key_at = [&](Index s) { return ((sequence * tokens + s) * shape.kv_heads + kv_head) * e; };
      for (Index t = 0; t < tokens; ++t) {
        const Index first = shape.first_seen(t);
        const Index end = shape.end_seen(t, tokens);
        std::vector<double> weight;  // row t of the pattern, of the tokens seen
        double largest = -HUGE_VAL;
        for (Index s = first; s < end; ++s) {
          weight.push_back(score(shape, dot(q + query_at(t), k + key_at(s))));
          largest = std::max(largest, weight.back());
        }
        double total = 0.0;
        for (double& w : weight) total += w = std::exp(w - largest);
        for (double& w : weight) w /= total;
        double mean_slope = 0.0;
        for (Index s = first; s < end; ++s) {
          mean_slope += weight[static_cast<std::size_t>(s - first)] * dot(dy + query_at(t), v + key_at(s));
        }
        for (Index s = first; s < end; ++s) {
          const double w = weight[static_cast<std::size_t>(s - first)];
          const double dz = w * (dot(dy + query_at(t), v + key_at(s)) - mean_slope) *
                            score_slope(shape, dot(q + query_at(t), k + key_at(s)));
          for (Index i = 0; i < e; ++i) {
            dq[query_at(t) + i] += dz * k[key_at(s) + i];
            dk[key_at(s) + i] += dz * q[query_at(t) + i];
            dv[key_at(s) + i] += w * dy[query_at(t) + i];
          }
        }
      }
    }
  }
}

double soft_cap_slope(double cap, double x) {
  const double t = std::tanh(x / cap);
  return 1.0 - t * t;
}

double activation_slope(Activation kind, double x) {
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

double cross_entropy(const double* logits, const int* labels, double* dlogits, Index rows, Index classes) {
  const auto labelled = static_cast<double>(rows - std::count(labels, labels + rows, no_label));
  double loss = 0.0;
  for (Index t = 0; t < rows; ++t) {
    const double* row = logits + t * classes;
    double* out = dlogits + t * classes;
    for (Index j = 0; j < classes; ++j) out[j] = 0.0;
    if (labels[t] == no_label) continue;
    double largest = row[0];
    for (Index j = 0; j < classes; ++j) largest = std::max(largest, row[j]);
    double total = 0.0;
    for (Index j = 0; j < classes; ++j) total += std::exp(row[j] - largest);
    loss += (std::log(total) - (row[labels[t]] - largest)) / labelled;
    for (Index j = 0; j < classes; ++j) {
      const double p = std::exp(row[j] - largest) / total;
      out[j] = (p - (j == labels[t] ? 1.0 : 0.0)) / labelled;
    }
  }
  return loss;
}

}  // namespace periscope::reference
