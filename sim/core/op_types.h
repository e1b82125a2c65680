#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/streams.h"

namespace periscope {

/// Shape of an attention op: q [sequences·T, heads·head_dim] at positions offset … offset + T−1, k and v [sequences·K,
/// kv_heads·head_dim] at positions 0 … K−1, K ≥ offset + T. Query head i reads key/value head i / (heads / kv_heads).
struct AttentionShape {
  int heads;
  int kv_heads;
  int head_dim;
  int sequences;
  bool causal;
  ScoreRule scores = {};
  Tensor::Index offset = 0;  ///< position of the first query in its sequence

  /// The factor that multiplies q·k.
  [[nodiscard]] double scale() const {
    return scores.scale != 0.0 ? scores.scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
  }
  /// Query t (counted from `offset`) sees the keys first_seen(t) … end_seen(t, keys) − 1.
  [[nodiscard]] constexpr Tensor::Index first_seen(Tensor::Index t) const {
    return scores.window > 0 ? std::max<Tensor::Index>(0, offset + t - scores.window + 1) : 0;
  }
  [[nodiscard]] constexpr Tensor::Index end_seen(Tensor::Index t, Tensor::Index keys) const {
    return causal ? offset + t + 1 : keys;
  }
};

/// Marks a row that cross_entropy ignores.
inline constexpr int no_label = -1;

/// The result of row_basis: x = lower · basis.
struct RowBasis {
  Tensor lower;  ///< lower triangular [N, N], diagonal ≥ 0
  Tensor basis;  ///< [N, n]; rows are orthonormal, or zero for dependent rows of x; empty if not requested
};
/// A row of x is linearly dependent if its distance from the span of earlier rows is at most this fraction of its
/// length: a multiple of the unit round-off, so that rows that differ only by rounding in a deep stack count as equal.
[[nodiscard]] constexpr double dependence_tolerance(DType dtype) {
  const double times = dtype == DType::f64 ? 0x1p13 : dtype == DType::f32 ? 0x1p6 : 4.0;
  return format_of(dtype).unit_roundoff() * times;
}
/// A callback that writes rows first … first + count − 1 of a matrix, row-major, into `values`. It is constructed from
/// a callable that accepts f64 and f32 values; the f32 values are the f64 values rounded to nearest.
struct FillRows {
  template <class Values>
  using Function = std::function<void(Tensor::Index first, Tensor::Index count, std::span<Values> values)>;
  Function<double> in_f64;
  Function<float> in_f32;

  template <class Source>
  FillRows(const Source& source) : in_f64(source), in_f32(source) {}  // NOLINT: implicit, like std::function
};
/// A random matrix [rows, cols] that equals Backend::normal with the same arguments.
struct DrawnMatrix {
  Tensor::Index rows;
  Tensor::Index cols;
  StreamKey key;
  double stddev;
};

/// The result of norm_backward: dx has the shape of x; dgain, dbias [1, n]; dalpha [1, 1], empty for kinds without α.
struct NormGradient {
  Tensor dx;
  Tensor dgain;
  Tensor dbias;
  Tensor dalpha = {};
};

struct AttentionOutput {
  Tensor mixed;   ///< softmax(z) v [N, heads·head_dim], the heads concatenated
  Tensor scores;  ///< max |z| over the keys that a token sees, per query head [N, heads]; NaN if a score is NaN
};

/// Each gradient has the shape of its input.
struct AttentionGradient {
  Tensor dq;
  Tensor dk;
  Tensor dv;
};

/// Both gradients have the shape of the gate.
struct GatedGradient {
  Tensor dgate;
  Tensor dup;
};

/// Parameters of one AdamW step (Loshchilov and Hutter 2019); the decay is applied before the update.
struct AdamRule {
  double rate;            ///< learning rate
  double decay;           ///< learning rate · weight decay; the parameter is first multiplied by 1 − decay
  double beta1, beta2;    ///< decay rates of the running means of the gradient and of its square
  double eps;             ///< added to the root of the mean square
  double gradient_scale;  ///< multiplies the gradient, for clipping
  Tensor::Index step;     ///< step number from 1, for the bias correction: means are divided by 1 − beta^step
};

/// A parameter and its running means, all of the same shape.
struct AdamState {
  Tensor parameter;
  Tensor mean;
  Tensor square;
};

struct CrossEntropy {
  double loss;     ///< mean over the labelled rows
  Tensor dlogits;  ///< gradient of the loss, with the shape of the logits
};

}  // namespace periscope
