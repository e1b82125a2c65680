#include <algorithm>
#include <cmath>

#include "sim/reference/ops.h"

namespace periscope {
namespace {

/// Applies a ScoreRule to q·k.
double score(const AttentionShape& shape, double dot) {
  const double z = shape.scale() * dot;
  const double cap = shape.scores.soft_cap;
  return cap > 0.0 ? cap * std::tanh(z / cap) : z;
}

/// Its derivative by q·k.
double score_derivative(const AttentionShape& shape, double dot) {
  const double cap = shape.scores.soft_cap;
  if (!(cap > 0.0)) return shape.scale();
  const double t = std::tanh(shape.scale() * dot / cap);
  return shape.scale() * (1.0 - t * t);
}

}  // namespace

void ReferenceBackend::do_rope(const Tensor& x, int heads, int sequences, std::span<const double> frequencies,
                               Index offset, Tensor& y) const {
  const Index tokens = x.rows() / sequences;
  const Index head_dim = x.cols() / heads;
  const Index half = head_dim / 2;
  const double* from = elements<double>(x);
  double* to = elements<double>(y);
  for (Index first = 0; first < x.size(); first += head_dim) {
    const double* in = from + first;
    double* out = to + first;
    const auto position = static_cast<double>(offset + first / x.cols() % tokens);
    for (Index i = 0; i < half; ++i) {
      const double angle = position * frequencies[static_cast<std::size_t>(i)];
      out[i] = in[i] * std::cos(angle) - in[i + half] * std::sin(angle);
      out[i + half] = in[i + half] * std::cos(angle) + in[i] * std::sin(angle);
    }
  }
}

void ReferenceBackend::do_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                    const AttentionShape& shape, Attended& a) const {
  const double* q = elements<double>(queries);
  const double* k = elements<double>(keys);
  const double* v = elements<double>(values);
  double* y = elements<double>(a.mixed);
  double* scores = elements<double>(a.scores);
  const Index rows = queries.rows();
  const Index tokens = rows / shape.sequences;
  const Index key_tokens = keys.rows() / shape.sequences;
  const Index e = shape.head_dim;
  const Index q_stride = shape.heads * e;
  const Index kv_stride = shape.kv_heads * e;
  std::vector<double> weight(static_cast<std::size_t>(key_tokens));
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index head = 0; head < shape.heads; ++head) {
      const Index kv_head = head / (shape.heads / shape.kv_heads);
      for (Index t = 0; t < tokens; ++t) {
        const double* query = q + (sequence * tokens + t) * q_stride + head * e;
        const Index first = shape.first_seen(t);
        const Index end = shape.end_seen(t, key_tokens);
        double largest = -HUGE_VAL;
        double& magnitude = scores[(sequence * tokens + t) * shape.heads + head];
        magnitude = 0.0;
        for (Index s = first; s < end; ++s) {
          const double* key = k + (sequence * key_tokens + s) * kv_stride + kv_head * e;
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
            out[i] += weight[static_cast<std::size_t>(s)] / total *
                      v[(sequence * key_tokens + s) * kv_stride + kv_head * e + i];
          }
        }
      }
    }
  }
}

void ReferenceBackend::do_attention_backward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                             const Tensor& dmixed, const AttentionShape& shape,
                                             AttentionGradient& g) const {
  const double* q = elements<double>(queries);
  const double* k = elements<double>(keys);
  const double* v = elements<double>(values);
  const double* dy = elements<double>(dmixed);
  double* dq = elements<double>(g.dq);
  double* dk = elements<double>(g.dk);
  double* dv = elements<double>(g.dv);
  std::fill_n(dq, g.dq.size(), 0.0);
  std::fill_n(dk, g.dk.size(), 0.0);
  std::fill_n(dv, g.dv.size(), 0.0);
  const Index rows = queries.rows();
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
        double row_sum = 0.0;  // of A∘dA
        for (Index s = first; s < end; ++s) {
          row_sum += weight[static_cast<std::size_t>(s - first)] * dot(dy + query_at(t), v + key_at(s));
        }
        for (Index s = first; s < end; ++s) {
          const double w = weight[static_cast<std::size_t>(s - first)];
          const double dz = w * (dot(dy + query_at(t), v + key_at(s)) - row_sum) *
                            score_derivative(shape, dot(q + query_at(t), k + key_at(s)));
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

}  // namespace periscope
