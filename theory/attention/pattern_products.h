#pragma once

#include <algorithm>
#include <utility>

#include "theory/attention/attention_head.h"
#include "theory/attention/float_product.h"

/// Matrix products with attention patterns [T, T]. A causal pattern is lower triangular, which halves the cost or,
/// with a symmetric result, reduces it to a sixth. `out` is resized and must not alias a factor. Factors own no data.
namespace periscope::theory {

inline FloatFactor factor_of(const Sample& x, bool lower_triangular = false) {
  return {.data = x.data(),
          .rows = x.rows(),
          .columns = x.cols(),
          .row_step = 1,
          .column_step = x.outerStride(),
          .zeros = lower_triangular ? Zeros::above_diagonal : Zeros::none};
}

inline FloatFactor transposed(FloatFactor x) {
  std::swap(x.rows, x.columns);
  std::swap(x.row_step, x.column_step);
  if (x.zeros != Zeros::none) {
    x.zeros = x.zeros == Zeros::above_diagonal ? Zeros::below_diagonal : Zeros::above_diagonal;
  }
  return x;
}

/// out ← a·b. With `lower_only`, entries above the diagonal are finite but unspecified.
inline void product_into(Sample& out, const FloatFactor& a, const FloatFactor& b, bool lower_only = false) {
  out.resize(a.rows, b.columns);
  multiply({.a = a, .b = b, .c = out.data(), .c_column_step = out.outerStride(), .lower_only = lower_only});
}

/// sum ← sum + weight·(x·xᵀ) for x [T, n]; only the lower triangle of `sum` is valid.
inline void add_outer(Sample& sum, const Sample& x, float weight) {
  multiply({.a = factor_of(x),
            .b = transposed(factor_of(x)),
            .c = sum.data(),
            .c_column_step = sum.outerStride(),
            .lower_only = true,
            .accumulate = true,
            .weight = weight});
}

/// Copies the lower triangle to the upper one, in blocks that fit the L1 cache.
inline void mirror_lower(Sample& x) {
  constexpr Index block = 16;
  const Index step = x.outerStride();
  for (Index i = 0; i < x.rows(); i += block) {
    const Index end = std::min(i + block, x.rows());
    for (Index j = 0; j <= i; j += block) {
      float block_of_x[block][block];
      const Index columns = std::min(block, x.rows() - j);
      for (Index c = 0; c < columns; ++c) {
        for (Index r = i; r < end; ++r) block_of_x[r - i][c] = x.data()[r + (j + c) * step];
      }
      for (Index r = i; r < end; ++r) {
        const Index above = std::min(columns, r - j);
        for (Index c = 0; c < above; ++c) x.data()[j + c + r * step] = block_of_x[r - i][c];
      }
    }
  }
}

/// out ← a·b for a symmetric result, such as x·xᵀ, or (a·k)·aᵀ with a symmetric k.
inline void symmetric_product_into(Sample& out, const FloatFactor& a, const FloatFactor& b) {
  product_into(out, a, b, true);
  mirror_lower(out);
}

}  // namespace periscope::theory
