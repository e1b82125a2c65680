#include <cmath>
#include <utility>

#include "sim/cpu/ops.h"
#include "sim/spec/first_exception.h"

namespace periscope {
namespace cpu {
namespace {

/// Softmax over the entries first … end−1 of a row of scores; the rest become 0.
template <class T>
void softmax_row(T* scores, Index first, Index end, Index tokens) {
  Row<T> seen(scores + first, end - first);
  const T largest = seen.maxCoeff();
  seen = (seen - largest).exp();
  seen /= seen.sum();
  Row<T>(scores, first).setZero();
  Row<T>(scores + end, tokens - end).setZero();
}

/// Scores [T, T] of one head of one sequence, before the mask.
template <class T>
RowMatrix<T> scores_of(const ConstStrided<T>& query, const ConstStrided<T>& key, const AttentionShape& shape) {
  RowMatrix<T> scores = static_cast<T>(shape.scale()) * query * key.transpose();
  const T cap = static_cast<T>(shape.scores.soft_cap);
  if (cap > T(0)) scores.array() = cap * (scores.array() / cap).tanh();
  return scores;
}

/// Pattern [T, T] from scores.
template <class T>
RowMatrix<T> pattern_of(RowMatrix<T> scores, const AttentionShape& shape) {
  const Index tokens = scores.rows();
  for (Index t = 0; t < tokens; ++t) {
    softmax_row(&scores(t, 0), shape.first_seen(t), shape.end_seen(t, tokens), tokens);
  }
  return scores;
}

/// One head of one sequence of a tensor [rows, heads·e], Map being Strided or ConstStrided.
template <class Map, class Pointer>
Map head_of(Pointer x, Index rows, const AttentionShape& shape, Index heads, Index sequence, Index head) {
  const Index tokens = rows / shape.sequences;
  const Index e = shape.head_dim;
  return Map(x + (sequence * tokens * heads + head) * e, tokens, e, Eigen::OuterStride<>(heads * e));
}

/// Turns every pair by its position's angle.
template <class T>
void rope(const T* x, T* y, Index rows, int heads, Index head_dim, Index tokens, std::span<const double> frequencies) {
  const Index half = head_dim / 2;
#pragma omp parallel for schedule(static) if (rows * heads * head_dim > worth_threads)
  for (Index row = 0; row < rows; ++row) {
    const auto position = static_cast<double>(row % tokens);
    for (Index i = 0; i < half; ++i) {
      const double angle = position * frequencies[static_cast<std::size_t>(i)];
      const T c = static_cast<T>(std::cos(angle));
      const T s = static_cast<T>(std::sin(angle));
      for (Index head = 0; head < heads; ++head) {
        const Index first = (row * heads + head) * head_dim + i;
        const T a = x[first];
        const T b = x[first + half];
        y[first] = a * c - b * s;
        y[first + half] = b * c + a * s;
      }
    }
  }
}

template <class T>
void attention(const T* q, const T* k, const T* v, T* y, T* scores, Index rows, const AttentionShape& shape) {
  const Index tokens = rows / shape.sequences;
  const Index units = static_cast<Index>(shape.sequences) * shape.heads;
  FirstException failure;
#pragma omp parallel for schedule(static) if (units * rows * rows > worth_threads)
  for (Index unit = 0; unit < units; ++unit) {
    failure.run([&] {
      const Index sequence = unit / shape.heads;
      const Index head = unit % shape.heads;
      const Index kv_head = head / (shape.heads / shape.kv_heads);
      const auto query = head_of<ConstStrided<T>>(q, rows, shape, shape.heads, sequence, head);
      const auto key = head_of<ConstStrided<T>>(k, rows, shape, shape.kv_heads, sequence, kv_head);
      const auto value = head_of<ConstStrided<T>>(v, rows, shape, shape.kv_heads, sequence, kv_head);
      auto out = head_of<Strided<T>>(y, rows, shape, shape.heads, sequence, head);
      RowMatrix<T> z = scores_of<T>(query, key, shape);
      for (Index t = 0; t < tokens; ++t) {
        const Index first = shape.first_seen(t);
        const ConstRow<T> seen(&z(t, first), shape.end_seen(t, tokens) - first);
        scores[(sequence * tokens + t) * shape.heads + head] = seen.abs().template maxCoeff<Eigen::PropagateNaN>();
      }
      out.noalias() = pattern_of(std::move(z), shape) * value;
    });
  }
  failure.rethrow();
}

// One unit of work is one key/value head of one sequence: its query heads add to dk and dv in order.
template <class T>
void attention_backward(const T* q, const T* k, const T* v, const T* dy, T* dq, T* dk, T* dv, Index rows,
                        const AttentionShape& shape) {
  const Index units = static_cast<Index>(shape.sequences) * shape.kv_heads;
  const Index group = shape.heads / shape.kv_heads;
  const T cap = static_cast<T>(shape.scores.soft_cap);
  FirstException failure;
#pragma omp parallel for schedule(static) if (units * rows * rows > worth_threads)
  for (Index unit = 0; unit < units; ++unit) {
    failure.run([&] {
      const Index sequence = unit / shape.kv_heads;
      const Index kv_head = unit % shape.kv_heads;
      const auto key = head_of<ConstStrided<T>>(k, rows, shape, shape.kv_heads, sequence, kv_head);
      const auto value = head_of<ConstStrided<T>>(v, rows, shape, shape.kv_heads, sequence, kv_head);
      auto dkey = head_of<Strided<T>>(dk, rows, shape, shape.kv_heads, sequence, kv_head);
      auto dvalue = head_of<Strided<T>>(dv, rows, shape, shape.kv_heads, sequence, kv_head);
      dkey.setZero();
      dvalue.setZero();
      for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const auto query = head_of<ConstStrided<T>>(q, rows, shape, shape.heads, sequence, head);
        const auto dout = head_of<ConstStrided<T>>(dy, rows, shape, shape.heads, sequence, head);
        RowMatrix<T> scores = scores_of<T>(query, key, shape);
        RowMatrix<T> cap_derivative;  // 1 − tanh²
        if (cap > T(0)) cap_derivative = T(1) - (scores.array() / cap).square();
        const RowMatrix<T> pattern = pattern_of(std::move(scores), shape);
        RowMatrix<T> dscores = dout * value.transpose();
        const Eigen::Array<T, Eigen::Dynamic, 1> mean = (pattern.array() * dscores.array()).rowwise().sum();
        dscores.array() = static_cast<T>(shape.scale()) * pattern.array() * (dscores.array().colwise() - mean);
        if (cap > T(0)) dscores.array() *= cap_derivative.array();
        head_of<Strided<T>>(dq, rows, shape, shape.heads, sequence, head).noalias() = dscores * key;
        dkey.noalias() += dscores.transpose() * query;
        dvalue.noalias() += pattern.transpose() * dout;
      }
    });
  }
  failure.rethrow();
}

}  // namespace
}  // namespace cpu

// -------------------------------------------------------------------------------------------------

using cpu::with_type_of;

void CpuBackend::do_rope(const Tensor& x, int heads, int sequences, std::span<const double> frequencies,
                         Tensor& y) const {
  with_type_of(x, [&]<class T>(T) {
    cpu::rope(elements<T>(x), elements<T>(y), x.rows(), heads, x.cols() / heads, x.rows() / sequences, frequencies);
  });
}

void CpuBackend::do_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape,
                              Attended& a) const {
  with_type_of(q, [&]<class T>(T) {
    cpu::attention(elements<T>(q), elements<T>(k), elements<T>(v), elements<T>(a.mixed), elements<T>(a.scores),
                   q.rows(), shape);
  });
}

void CpuBackend::do_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
                                       const AttentionShape& shape, AttentionGradient& g) const {
  with_type_of(q, [&]<class T>(T) {
    cpu::attention_backward(elements<T>(q), elements<T>(k), elements<T>(v), elements<T>(dy), elements<T>(g.dq),
                            elements<T>(g.dk), elements<T>(g.dv), q.rows(), shape);
  });
}

}  // namespace periscope
