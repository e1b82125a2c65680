#include <algorithm>
#include <cmath>

#include "sim/base/first_exception.h"
#include "sim/cpu/gemm.h"
#include "sim/cpu/ops.h"
#include "sim/cpu/scratch.h"

namespace periscope {
namespace cpu {
namespace {

/// Number of queries of a head whose scores are in memory at a time. For short sequences it is half the tokens, so that
/// the first half skips the keys of the second (causal mask).
Index query_block(Index tokens) { return std::clamp<Index>((tokens / 2 + 15) / 16 * 16, 32, 256); }

/// Returns the first key of a block whose first query sees keys from `first` on. It is rounded down to a multiple of
/// kernel::depth, the number of terms that gemm adds in registers, so that a query's sums do not depend on its block.
Index aligned_first_key(Index first) { return first / 256 * 256; }

/// Views of one head of one sequence: queries [T, e], keys and values [K, e].
template <class T>
struct HeadViews {
  MatrixView<T> query, key, value;
  Index tokens, keys;
};

/// Queries first … first + count − 1 and their keys first_key … first_key + keys − 1. Rows of scores are `stride`
/// elements apart, which aligns them to vectors.
struct QueryBlock {
  Index first, count, first_key, keys, stride;
};

/// Calls body(QueryBlock) for every block of queries of one head, in order.
template <class Body>
void for_query_blocks(Index tokens, Index all_keys, const AttentionShape& shape, const Body& body) {
  const Index block = query_block(tokens);
  for (Index first = 0; first < tokens; first += block) {
    const Index count = std::min(block, tokens - first);
    const Index first_key = aligned_first_key(shape.first_seen(first));
    const Index keys = shape.end_seen(first + count - 1, all_keys) - first_key;
    body(QueryBlock{first, count, first_key, keys, (keys + 15) / 16 * 16});
  }
}

/// Returns the number of scores in the largest block.
Index block_size(Index tokens, Index keys) { return std::min(query_block(tokens), tokens) * ((keys + 15) / 16 * 16); }

/// Replaces scores first … end−1 of a row by their softmax, and all other entries by 0.
template <class T>
void softmax_row(T* scores, Index first, Index end, Index keys) {
  Row<T> seen(scores + first, end - first);
  seen = (seen - seen.maxCoeff()).exp();
  seen *= T(1) / seen.sum();
  Row<T>(scores, first).setZero();
  Row<T>(scores + end, keys - end).setZero();
}

/// Computes the attention pattern softmax(z) [count, keys] of a block of queries. With a soft cap, writes its
/// derivative 1 − tanh² to `slope`, which may be null. Calls visit(t, z) with the scores z that query t sees.
template <class T, class Visit>
void pattern_of(const HeadViews<T>& h, const QueryBlock& b, const AttentionShape& shape, T* pattern, T* slope,
                const Visit& visit) {
  serial_gemm<T>(b.count, b.keys, shape.head_dim, h.query.from(b.first, 0), h.key.from(b.first_key, 0).transposed(),
                 pattern, b.stride);
  const T scale = static_cast<T>(shape.scale());
  const T cap = static_cast<T>(shape.scores.soft_cap);
  for (Index i = 0; i < b.count; ++i) {
    Row<T> row(pattern + i * b.stride, b.keys);
    row *= scale;
    if (cap > T(0)) {
      row = (row / cap).tanh();
      if (slope != nullptr) Row<T>(slope + i * b.stride, b.keys) = T(1) - row.square();
      row *= cap;
    }
    const Index t = b.first + i;
    const Index first = shape.first_seen(t) - b.first_key;
    const Index end = shape.end_seen(t, h.keys) - b.first_key;
    visit(t, ConstRow<T>(row.data() + first, end - first));
    softmax_row(row.data(), first, end, b.keys);
  }
}

/// The elements of one head of one sequence in a tensor [rows, heads·e].
struct HeadLayout {
  Index offset, stride;
};

HeadLayout layout_of(Index rows, const AttentionShape& shape, Index heads, Index sequence, Index head) {
  return {(sequence * (rows / shape.sequences) * heads + head) * shape.head_dim, heads * shape.head_dim};
}

template <class T>
MatrixView<T> head_of(const T* x, const HeadLayout& head) {
  return {x + head.offset, head.stride};
}

/// Rotates every pair by the angle of its position.
template <class T>
void rope(const T* x, T* y, Index rows, int heads, Index head_dim, Index tokens, std::span<const double> frequencies,
          Index offset) {
  const Index half = head_dim / 2;
  const Scratch<T> cosines(tokens * half), sines(tokens * half);
#pragma omp parallel if (rows * heads * head_dim > min_parallel_size)
  {
#pragma omp for schedule(static)
    for (Index t = 0; t < tokens; ++t) {
      for (Index i = 0; i < half; ++i) {
        const double angle = static_cast<double>(offset + t) * frequencies[static_cast<std::size_t>(i)];
        cosines.data()[t * half + i] = static_cast<T>(std::cos(angle));
        sines.data()[t * half + i] = static_cast<T>(std::sin(angle));
      }
    }
#pragma omp for schedule(static)
    for (Index row = 0; row < rows; ++row) {
      const T* const c = cosines.data() + row % tokens * half;
      const T* const s = sines.data() + row % tokens * half;
      for (Index head = 0; head < heads; ++head) {
        const Index first = (row * heads + head) * head_dim;
#pragma omp simd
        for (Index i = 0; i < half; ++i) {
          const T a = x[first + i];
          const T b = x[first + half + i];
          y[first + i] = a * c[i] - b * s[i];
          y[first + half + i] = b * c[i] + a * s[i];
        }
      }
    }
  }
}

template <class T>
void attention(const T* q, const T* k, const T* v, T* y, T* scores, Index rows, Index key_rows,
               const AttentionShape& shape) {
  const Index tokens = rows / shape.sequences;
  const Index keys = key_rows / shape.sequences;
  const Index units = static_cast<Index>(shape.sequences) * shape.heads;
  FirstException failure;
#pragma omp parallel for schedule(dynamic, 1) if (units * tokens * keys > min_parallel_size)
  for (Index unit = 0; unit < units; ++unit) {
    failure.run([&] {
      const Index sequence = unit / shape.heads;
      const Index head = unit % shape.heads;
      const HeadLayout q_layout = layout_of(rows, shape, shape.heads, sequence, head);
      const HeadLayout kv_layout =
          layout_of(key_rows, shape, shape.kv_heads, sequence, head / (shape.heads / shape.kv_heads));
      const HeadViews<T> h{head_of(q, q_layout), head_of(k, kv_layout), head_of(v, kv_layout), tokens, keys};
      const Scratch<T> pattern(block_size(tokens, keys));
      for_query_blocks(tokens, keys, shape, [&](const QueryBlock& b) {
        pattern_of(h, b, shape, pattern.data(), static_cast<T*>(nullptr), [&](Index t, const ConstRow<T>& seen) {
          scores[(sequence * tokens + t) * shape.heads + head] = seen.abs().template maxCoeff<Eigen::PropagateNaN>();
        });
        serial_gemm<T>(b.count, shape.head_dim, b.keys, {pattern.data(), b.stride}, h.value.from(b.first_key, 0),
                       y + q_layout.offset + b.first * q_layout.stride, q_layout.stride);
      });
    });
  }
  failure.rethrow();
}

/// Output buffers for the gradients of one head; dkey and dvalue are accumulated.
template <class T>
struct HeadGradient {
  T *dquery, *dkey, *dvalue;
  Index query_row, key_row;
};

template <class T>
void attention_backward_head(const HeadViews<T>& h, const MatrixView<T>& dout, const HeadGradient<T>& g,
                             const AttentionShape& shape) {
  const Index e = shape.head_dim;
  const Scratch<T> pattern(block_size(h.tokens, h.keys)), dscores(block_size(h.tokens, h.keys));
  const bool capped = shape.scores.soft_cap > 0.0;
  const Scratch<T> slope(capped ? block_size(h.tokens, h.keys) : 1);
  for_query_blocks(h.tokens, h.keys, shape, [&](const QueryBlock& b) {
    pattern_of(h, b, shape, pattern.data(), capped ? slope.data() : nullptr, [](Index, const ConstRow<T>&) {});
    const MatrixView<T> dout_here = dout.from(b.first, 0);
    serial_gemm<T>(b.count, b.keys, e, dout_here, h.value.from(b.first_key, 0).transposed(), dscores.data(), b.stride);
    for (Index i = 0; i < b.count; ++i) {
      const ConstRow<T> weight(pattern.data() + i * b.stride, b.keys);
      Row<T> d(dscores.data() + i * b.stride, b.keys);
      const T mean = (weight * d).sum();
      d = static_cast<T>(shape.scale()) * weight * (d - mean);
      if (capped) d *= ConstRow<T>(slope.data() + i * b.stride, b.keys);
    }
    const MatrixView<T> dz{dscores.data(), b.stride};
    const MatrixView<T> p{pattern.data(), b.stride};
    T* const dkey = g.dkey + b.first_key * g.key_row;
    T* const dvalue = g.dvalue + b.first_key * g.key_row;
    serial_gemm<T>(b.count, e, b.keys, dz, h.key.from(b.first_key, 0), g.dquery + b.first * g.query_row, g.query_row);
    serial_gemm<T>(b.keys, e, b.count, dz.transposed(), h.query.from(b.first, 0), dkey, g.key_row, Output::accumulate);
    serial_gemm<T>(b.keys, e, b.count, p.transposed(), dout_here, dvalue, g.key_row, Output::accumulate);
  });
}

// The unit of parallel work is one key/value head of one sequence: its query heads accumulate dk and dv in order.
template <class T>
void attention_backward(const T* q, const T* k, const T* v, const T* dy, T* dq, T* dk, T* dv, Index rows,
                        const AttentionShape& shape) {
  const Index tokens = rows / shape.sequences;
  const Index units = static_cast<Index>(shape.sequences) * shape.kv_heads;
  const Index group = shape.heads / shape.kv_heads;
  FirstException failure;
#pragma omp parallel for schedule(dynamic, 1) if (units * tokens * tokens > min_parallel_size)
  for (Index unit = 0; unit < units; ++unit) {
    failure.run([&] {
      const Index sequence = unit / shape.kv_heads;
      const Index kv_head = unit % shape.kv_heads;
      const HeadLayout kv_layout = layout_of(rows, shape, shape.kv_heads, sequence, kv_head);
      for (Index t = 0; t < tokens; ++t) {
        std::fill_n(dk + kv_layout.offset + t * kv_layout.stride, shape.head_dim, T(0));
        std::fill_n(dv + kv_layout.offset + t * kv_layout.stride, shape.head_dim, T(0));
      }
      for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const HeadLayout q_layout = layout_of(rows, shape, shape.heads, sequence, head);
        attention_backward_head<T>(
            {head_of(q, q_layout), head_of(k, kv_layout), head_of(v, kv_layout), tokens, tokens}, head_of(dy, q_layout),
            {dq + q_layout.offset, dk + kv_layout.offset, dv + kv_layout.offset, q_layout.stride, kv_layout.stride},
            shape);
      }
    });
  }
  failure.rethrow();
}

}  // namespace
}  // namespace cpu

using cpu::with_type_of;

void CpuBackend::run(const op::Rope& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    cpu::rope(elements<T>(o.x), elements<T>(o.y), o.x.rows(), o.heads, o.x.cols() / o.heads, o.x.rows() / o.sequences,
              o.frequencies, o.offset);
  });
}

void CpuBackend::run(const op::Attention& o) const {
  with_type_of(o.q, [&]<class T>(T) {
    cpu::attention(elements<T>(o.q), elements<T>(o.k), elements<T>(o.v), elements<T>(o.a.mixed),
                   elements<T>(o.a.scores), o.q.rows(), o.k.rows(), o.shape);
  });
}

void CpuBackend::run(const op::AttentionBackward& o) const {
  with_type_of(o.q, [&]<class T>(T) {
    cpu::attention_backward(elements<T>(o.q), elements<T>(o.k), elements<T>(o.v), elements<T>(o.dy),
                            elements<T>(o.g.dq), elements<T>(o.g.dk), elements<T>(o.g.dv), o.q.rows(), o.shape);
  });
}

}  // namespace periscope
