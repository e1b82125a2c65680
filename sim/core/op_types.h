#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/streams.h"

namespace periscope {

/// Shape of an attention op: q [sequences·T, heads·head_dim] of tokens offset … offset + T−1, k and v
/// [sequences·K, kv_heads·head_dim] of tokens 0 … K−1, K ≥ offset + T. Query head i reads key/value head
/// i / (heads / kv_heads).
struct AttentionShape {
  int heads;
  int kv_heads;
  int head_dim;
  int sequences;
  bool causal;
  ScoreRule scores = {};
  Tensor::Index offset = 0;  ///< tokens before the first query

  /// Factor on q·k.
  [[nodiscard]] double scale() const {
    return scores.scale != 0.0 ? scores.scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
  }
  /// Query t sees tokens first … end−1.
  [[nodiscard]] constexpr Tensor::Index first_seen(Tensor::Index t) const {
    return scores.window > 0 ? std::max<Tensor::Index>(0, offset + t - scores.window + 1) : 0;
  }
  [[nodiscard]] constexpr Tensor::Index end_seen(Tensor::Index t, Tensor::Index keys) const {
    return causal ? offset + t + 1 : keys;
  }
};

/// A label that cross_entropy leaves out.
inline constexpr int no_label = -1;

/// The result of row_basis: x = lower · basis.
struct RowBasis {
  Tensor lower;  ///< lower triangular [N, N], diagonal ≥ 0
  Tensor basis;  ///< rows orthonormal, or zero where a row of x is dependent [N, n]; empty if not requested
};
/// A row of x is dependent if its distance from the span of the rows before it is at most this share of its length: a
/// multiple of the unit round-off, so that rows that differ by the rounding of a deep stack count as equal, and
/// omitting the rest is an error of that size.
[[nodiscard]] constexpr double dependence_tolerance(DType dtype) {
  const double times = dtype == DType::f64 ? 0x1p13 : dtype == DType::f32 ? 0x1p6 : 4.0;
  return format_of(dtype).unit_roundoff() * times;
}
/// Writes rows first … first + count − 1 of a matrix, row-major, into values. Made of a callable for both types; in f32
/// it writes the numbers of f64, rounded to nearest.
struct FillRows {
  template <class Values>
  using Function = std::function<void(Tensor::Index first, Tensor::Index count, std::span<Values> values)>;
  Function<double> in_f64;
  Function<float> in_f32;

  template <class Source>
  FillRows(const Source& source) : in_f64(source), in_f32(source) {}  // NOLINT: as std::function does
};
/// A matrix [rows, cols] of random numbers, the same as Backend::normal with these arguments.
struct DrawnMatrix {
  Tensor::Index rows;
  Tensor::Index cols;
  StreamKey key;
  double stddev;
};

/// The result of norm_backward: dx like x; dgain and dbias [1, n]; dalpha [1, 1], empty if the kind has no α.
struct NormGradient {
  Tensor dx;
  Tensor dgain;
  Tensor dbias;
  Tensor dalpha = {};
};

struct AttentionOutput {
  Tensor mixed;   ///< softmax(z) v, the heads side by side [N, heads·head_dim]
  Tensor scores;  ///< per token and query head the largest |z| over the tokens that it sees [N, heads]; NaN if one is
};

/// Each tensor is like its input.
struct AttentionGradient {
  Tensor dq;
  Tensor dk;
  Tensor dv;
};

/// Both are like the gate.
struct GatedGradient {
  Tensor dgate;
  Tensor dup;
};

/// One step of AdamW (Loshchilov and Hutter 2019), decay before the update: step number `step` from 1 on.
struct AdamRule {
  double rate;            ///< learning rate
  double decay;           ///< share of the parameter that is subtracted first: rate · weight decay
  double beta1, beta2;    ///< of the running means of the gradient and of its square
  double eps;             ///< added to the root of the mean square
  double gradient_scale;  ///< on the gradient, for clipping
  Tensor::Index step;     ///< the means are divided by 1 − beta^step, since they began at 0
};

/// A parameter and its moments, each like the parameter.
struct AdamState {
  Tensor parameter;
  Tensor mean;
  Tensor square;
};

struct CrossEntropy {
  double loss;     ///< mean over the rows that have a label
  Tensor dlogits;  ///< its gradient, like the logits
};

}  // namespace periscope
