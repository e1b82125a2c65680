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

/// Derivative of score() with respect to q·k.
double score_derivative(const AttentionShape& shape, double dot) {
  const double cap = shape.scores.soft_cap;
  if (!(cap > 0.0)) return shape.scale();
  const double t = std::tanh(shape.scale() * dot / cap);
  return shape.scale() * (1.0 - t * t);
}

}  // namespace

void ReferenceBackend::run(const op::Rope& o) const {
  const Index tokens = o.x.rows() / o.sequences;
  const Index head_dim = o.x.cols() / o.heads;
  const Index half = head_dim / 2;
  const double* from = elements<double>(o.x);
  double* to = elements<double>(o.y);
  for (Index first = 0; first < o.x.size(); first += head_dim) {
    const double* in = from + first;
    double* out = to + first;
    const auto position = static_cast<double>(o.offset + first / o.x.cols() % tokens);
    for (Index i = 0; i < half; ++i) {
      const double angle = position * o.frequencies[static_cast<std::size_t>(i)];
      out[i] = in[i] * std::cos(angle) - in[i + half] * std::sin(angle);
      out[i + half] = in[i + half] * std::cos(angle) + in[i] * std::sin(angle);
    }
  }
}

void ReferenceBackend::run(const op::Attention& o) const {
  const double* q = elements<double>(o.q);
  const double* k = elements<double>(o.k);
  const double* v = elements<double>(o.v);
  double* y = elements<double>(o.a.mixed);
  double* scores = elements<double>(o.a.scores);
  const Index rows = o.q.rows();
  const Index tokens = rows / o.shape.sequences;
  const Index key_tokens = o.k.rows() / o.shape.sequences;
  const Index e = o.shape.head_dim;
  const Index q_stride = o.shape.heads * e;
  const Index kv_stride = o.shape.kv_heads * e;
  std::vector<double> weight(static_cast<std::size_t>(key_tokens));
  for (Index sequence = 0; sequence < o.shape.sequences; ++sequence) {
    for (Index head = 0; head < o.shape.heads; ++head) {
      const Index kv_head = head / (o.shape.heads / o.shape.kv_heads);
      for (Index t = 0; t < tokens; ++t) {
        const double* query = q + (sequence * tokens + t) * q_stride + head * e;
        const Index first = o.shape.first_seen(t);
        const Index end = o.shape.end_seen(t, key_tokens);
        double largest = -HUGE_VAL;
        double& magnitude = scores[(sequence * tokens + t) * o.shape.heads + head];
        magnitude = 0.0;
        for (Index s = first; s < end; ++s) {
          const double* key = k + (sequence * key_tokens + s) * kv_stride + kv_head * e;
          double dot = 0.0;
          for (Index i = 0; i < e; ++i) dot += query[i] * key[i];
          const double z = weight[static_cast<std::size_t>(s)] = score(o.shape, dot);
          largest = std::max(largest, z);
          if (std::isnan(z) || std::abs(z) > magnitude) magnitude = std::abs(z);  // propagates NaN
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

void ReferenceBackend::run(const op::AttentionBackward& o) const {
  const double* q = elements<double>(o.q);
  const double* k = elements<double>(o.k);
  const double* v = elements<double>(o.v);
  const double* dy = elements<double>(o.dy);
  double* dq = elements<double>(o.g.dq);
  double* dk = elements<double>(o.g.dk);
  double* dv = elements<double>(o.g.dv);
  std::fill_n(dq, o.g.dq.size(), 0.0);
  std::fill_n(dk, o.g.dk.size(), 0.0);
  std::fill_n(dv, o.g.dv.size(), 0.0);
  const Index rows = o.q.rows();
  const Index tokens = rows / o.shape.sequences;
  const Index e = o.shape.head_dim;
  const auto dot = [e](const double* a, const double* b) {
    double sum = 0.0;
    for (Index i = 0; i < e; ++i) sum += a[i] * b[i];
    return sum;
  };
  for (Index sequence = 0; sequence < o.shape.sequences; ++sequence) {
    for (Index head = 0; head < o.shape.heads; ++head) {
      const Index kv_head = head / (o.shape.heads / o.shape.kv_heads);
      const auto query_at = [&](Index t) { return ((sequence * tokens + t) * o.shape.heads + head) * e; };
      const auto key_at = [&](Index s) { return ((sequence * tokens + s) * o.shape.kv_heads + kv_head) * e; };
      for (Index t = 0; t < tokens; ++t) {
        const Index first = o.shape.first_seen(t);
        const Index end = o.shape.end_seen(t, tokens);
        std::vector<double> weight;  // row t of the attention pattern, for the visible tokens
        double largest = -HUGE_VAL;
        for (Index s = first; s < end; ++s) {
          weight.push_back(score(o.shape, dot(q + query_at(t), k + key_at(s))));
          largest = std::max(largest, weight.back());
        }
        double total = 0.0;
        for (double& w : weight) total += w = std::exp(w - largest);
        for (double& w : weight) w /= total;
        double row_sum = 0.0;  // Σ A∘dA
        for (Index s = first; s < end; ++s) {
          row_sum += weight[static_cast<std::size_t>(s - first)] * dot(dy + query_at(t), v + key_at(s));
        }
        for (Index s = first; s < end; ++s) {
          const double w = weight[static_cast<std::size_t>(s - first)];
          const double dz = w * (dot(dy + query_at(t), v + key_at(s)) - row_sum) *
                            score_derivative(o.shape, dot(q + query_at(t), k + key_at(s)));
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
