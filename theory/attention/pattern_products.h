#pragma once

#include <algorithm>

#include "theory/attention/attention_head.h"
#include "theory/attention/float_product.h"

/// Products with attention patterns [T, T]. A causal pattern is lower triangular, which halves a product, and a
/// symmetric result takes a sixth. `out` gets its size here, and is none of the factors.
namespace periscope::theory {

inline FloatFactor factor_of(const Sample& x, Zeros zeros = Zeros::none) {
  return {.data = x.data(), .row = 1, .column = x.outerStride(), .zeros = zeros};
}

/// xᵀ, whose zeros are those of x on the other side.
inline FloatFactor transposed(FloatFactor x) {
  const Zeros zeros = x.zeros == Zeros::none             ? Zeros::none
                      : x.zeros == Zeros::above_diagonal ? Zeros::below_diagonal
                                                         : Zeros::above_diagonal;
  return {.data = x.data, .row = x.column, .column = x.row, .zeros = zeros};
}

inline FloatFactor pattern_factor(const Sample& a, bool causal) {
  return factor_of(a, causal ? Zeros::above_diagonal : Zeros::none);
}

/// a·b for a [rows, depth] and b [depth, columns].
inline void product_into(Sample& out, const FloatFactor& a, Index rows, Index depth, const FloatFactor& b,
                         Index columns, bool lower_only = false) {
  out.resize(rows, columns);
  multiply({.a = a,
            .b = b,
            .c = out.data(),
            .c_column = out.outerStride(),
            .rows = rows,
            .depth = depth,
            .columns = columns,
            .lower_only = lower_only});
}

/// a·x for x [T, n].
inline void pattern_times(const Sample& a, const Sample& x, bool causal, Sample& out) {
  product_into(out, pattern_factor(a, causal), a.rows(), a.cols(), factor_of(x), x.cols());
}

/// aᵀ·x for x [T, n].
inline void transposed_pattern_times(const Sample& a, const Sample& x, bool causal, Sample& out) {
  product_into(out, transposed(pattern_factor(a, causal)), a.cols(), a.rows(), factor_of(x), x.cols());
}

/// x·a for x [T, T].
inline void times_pattern(const Sample& x, const Sample& a, bool causal, Sample& out) {
  product_into(out, factor_of(x), x.rows(), x.cols(), pattern_factor(a, causal), a.cols());
}

/// x·aᵀ for x [T, T].
inline void times_transposed_pattern(const Sample& x, const Sample& a, bool causal, Sample& out) {
  product_into(out, factor_of(x), x.rows(), x.cols(), transposed(pattern_factor(a, causal)), a.rows());
}

/// x·yᵀ for x, y [T, n]; if `causal`, what is above the diagonal is not needed: it is 0 or a product.
inline void times_transposed_below(const Sample& x, const Sample& y, bool causal, Sample& out) {
  product_into(out, factor_of(x), x.rows(), x.cols(), transposed(factor_of(y)), y.rows(), causal);
}

/// sum + weight·(x·xᵀ) for x [T, n], of which only the lower triangle is kept.
inline void add_outer(Sample& sum, const Sample& x, float weight) {
  multiply({.a = factor_of(x),
            .b = transposed(factor_of(x)),
            .c = sum.data(),
            .c_column = sum.outerStride(),
            .rows = x.rows(),
            .depth = x.cols(),
            .columns = x.rows(),
            .lower_only = true,
            .adds = true,
            .weight = weight});
}

/// Copies the lower triangle onto the upper one, by blocks that stay in the nearest cache.
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

/// x·xᵀ.
inline void outer_product(const Sample& x, Sample& out) {
  product_into(out, factor_of(x), x.rows(), x.cols(), transposed(factor_of(x)), x.rows(), true);
  mirror_lower(out);
}

/// x·aᵀ where that is symmetric, as for x = a·k with a symmetric k; what is above the diagonal is 0 or a product.
inline void lower_of_times_transposed_pattern(const Sample& x, const Sample& a, bool causal, Sample& out) {
  product_into(out, factor_of(x), x.rows(), x.cols(), transposed(pattern_factor(a, causal)), a.rows(), true);
}

/// x·aᵀ where that is symmetric, as for x = a·k with a symmetric k.
inline void symmetric_times_transposed_pattern(const Sample& x, const Sample& a, bool causal, Sample& out) {
  lower_of_times_transposed_pattern(x, a, causal, out);
  mirror_lower(out);
}

/// aᵀ·x where that is symmetric, as for x = g·a with a symmetric g; what is above the diagonal is 0 or a product.
inline void lower_of_transposed_pattern_times(const Sample& a, const Sample& x, bool causal, Sample& out) {
  product_into(out, transposed(pattern_factor(a, causal)), a.cols(), a.rows(), factor_of(x), x.cols(), true);
}

}  // namespace periscope::theory
