#include <cmath>

#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {
namespace {

/// Softmax over the first `visible` entries of a row of logits; the rest become 0.
template <class T>
void softmax_row(T* logits, Index visible, Index tokens) {
  Row<T> seen(logits, visible);
  const T largest = seen.maxCoeff();
  seen = (seen - largest).exp();
  seen /= seen.sum();
  Row<T>(logits + visible, tokens - visible).setZero();
}

}  // namespace

template <class T>
void rope(const T* x, T* y, Index rows, int heads, Index head_dim, Index tokens, double base) {
  const Index half = head_dim / 2;
#pragma omp parallel for schedule(static)
  for (Index row = 0; row < rows; ++row) {
    const auto position = static_cast<double>(row % tokens);
    for (Index i = 0; i < half; ++i) {
      const double angle = position * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
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
void attention(const T* q, const T* k, const T* v, T* y, Index rows, const AttentionShape& shape) {
  const Index tokens = rows / shape.sequences;
  const Index e = shape.head_dim;
  const Eigen::OuterStride<> q_stride(shape.heads * e);
  const Eigen::OuterStride<> kv_stride(shape.kv_heads * e);
  const T scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(e)));
  const Index units = static_cast<Index>(shape.sequences) * shape.heads;
#pragma omp parallel for schedule(static)
  for (Index unit = 0; unit < units; ++unit) {
    const Index first_row = unit / shape.heads * tokens;
    const Index head = unit % shape.heads;
    const Index kv_head = head / (shape.heads / shape.kv_heads);
    const Index q_offset = first_row * shape.heads * e + head * e;
    const Index kv_offset = first_row * shape.kv_heads * e + kv_head * e;
    const ConstStrided<T> query(q + q_offset, tokens, e, q_stride);
    const ConstStrided<T> key(k + kv_offset, tokens, e, kv_stride);
    const ConstStrided<T> value(v + kv_offset, tokens, e, kv_stride);
    RowMatrix<T> pattern = scale * query * key.transpose();
    for (Index t = 0; t < tokens; ++t) softmax_row(&pattern(t, 0), shape.causal ? t + 1 : tokens, tokens);
    Strided<T>(y + q_offset, tokens, e, q_stride).noalias() = pattern * value;
  }
}

template void rope<double>(const double*, double*, Index, int, Index, Index, double);
template void rope<float>(const float*, float*, Index, int, Index, Index, double);
template void attention<double>(const double*, const double*, const double*, double*, Index, const AttentionShape&);
template void attention<float>(const float*, const float*, const float*, float*, Index, const AttentionShape&);

}  // namespace periscope::cpu
