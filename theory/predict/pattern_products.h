#pragma once

#include <algorithm>

#include "theory/predict/attention_head.h"

/// Products with attention patterns [T, T]. A causal pattern is lower triangular: blocks of rows or columns then leave
/// out the zeros, which halves a product, and a symmetric result needs a sixth. `out` gets its size here.
namespace periscope::theory {

inline constexpr Eigen::Index pattern_block = 32;

/// a·x for x [T, n].
template <class X>
void pattern_times(const Sample& a, const X& x, bool causal, Sample& out) {
  const Eigen::Index tokens = a.rows();
  out.resize(tokens, x.cols());
  if (!causal) {
    out.noalias() = a * x;
    return;
  }
  for (Eigen::Index i = 0; i < tokens; i += pattern_block) {
    const Eigen::Index n = std::min(pattern_block, tokens - i);
    out.middleRows(i, n).noalias() = a.block(i, 0, n, i + n) * x.topRows(i + n);
  }
}

/// aᵀ·x for x [T, n].
template <class X>
void transposed_pattern_times(const Sample& a, const X& x, bool causal, Sample& out) {
  const Eigen::Index tokens = a.rows();
  out.resize(tokens, x.cols());
  if (!causal) {
    out.noalias() = a.transpose() * x;
    return;
  }
  for (Eigen::Index i = 0; i < tokens; i += pattern_block) {
    const Eigen::Index n = std::min(pattern_block, tokens - i);
    out.middleRows(i, n).noalias() = a.block(i, i, tokens - i, n).transpose() * x.bottomRows(tokens - i);
  }
}

/// x·a for x [T, T].
inline void times_pattern(const Sample& x, const Sample& a, bool causal, Sample& out) {
  const Eigen::Index tokens = a.rows();
  out.resize(x.rows(), tokens);
  if (!causal) {
    out.noalias() = x * a;
    return;
  }
  for (Eigen::Index j = 0; j < tokens; j += pattern_block) {
    const Eigen::Index n = std::min(pattern_block, tokens - j);
    out.middleCols(j, n).noalias() = x.rightCols(tokens - j) * a.block(j, j, tokens - j, n);
  }
}

/// x·aᵀ for x [T, T].
inline void times_transposed_pattern(const Sample& x, const Sample& a, bool causal, Sample& out) {
  const Eigen::Index tokens = a.rows();
  out.resize(x.rows(), tokens);
  if (!causal) {
    out.noalias() = x * a.transpose();
    return;
  }
  for (Eigen::Index j = 0; j < tokens; j += pattern_block) {
    const Eigen::Index n = std::min(pattern_block, tokens - j);
    out.middleCols(j, n).noalias() = x.leftCols(j + n) * a.block(j, 0, n, j + n).transpose();
  }
}

/// x·yᵀ for x, y [T, n]; if `causal`, what is above the diagonal blocks is 0.
inline void times_transposed_below(const Sample& x, const Sample& y, bool causal, Sample& out) {
  const Eigen::Index tokens = x.rows();
  if (!causal) {
    out.noalias() = x * y.transpose();
    return;
  }
  out.setZero(tokens, tokens);
  for (Eigen::Index j = 0; j < tokens; j += pattern_block) {
    const Eigen::Index n = std::min(pattern_block, tokens - j);
    out.block(j, j, tokens - j, n).noalias() = x.bottomRows(tokens - j) * y.middleRows(j, n).transpose();
  }
}

/// Copies the lower triangle onto the upper one.
inline void mirror_lower(Sample& x) { x.triangularView<Eigen::StrictlyUpper>() = x.transpose(); }

/// x·aᵀ where that is symmetric, as for x = a·k with a symmetric k.
inline void symmetric_times_transposed_pattern(const Sample& x, const Sample& a, bool causal, Sample& out) {
  const Eigen::Index tokens = a.rows();
  out.resize(tokens, tokens);
  for (Eigen::Index j = 0; j < tokens; j += pattern_block) {
    const Eigen::Index n = std::min(pattern_block, tokens - j);
    const Eigen::Index seen = causal ? j + n : tokens;
    out.block(j, j, tokens - j, n).noalias() = x.block(j, 0, tokens - j, seen) * a.block(j, 0, n, seen).transpose();
  }
  mirror_lower(out);
}

/// aᵀ·x where that is symmetric, as for x = g·a with a symmetric g.
inline void symmetric_transposed_pattern_times(const Sample& a, const Sample& x, bool causal, Sample& out) {
  const Eigen::Index tokens = a.rows();
  out.resize(tokens, tokens);
  for (Eigen::Index i = 0; i < tokens; i += pattern_block) {
    const Eigen::Index n = std::min(pattern_block, tokens - i);
    const Eigen::Index first = causal ? i : 0;
    out.block(i, 0, n, i + n).noalias() =
        a.block(first, i, tokens - first, n).transpose() * x.block(first, 0, tokens - first, i + n);
  }
  mirror_lower(out);
}

}  // namespace periscope::theory
