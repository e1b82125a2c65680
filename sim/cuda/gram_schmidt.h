#pragma once

#include <cmath>
#include <limits>

#include "sim/cuda/launch.h"

/// Kernels of row_basis, on rows in double.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Stored as the exponent of a row that contains NaN or inf.
inline constexpr int not_finite = 1 << 30;

/// scaled = x in double, with row t divided by 2^exponents[t], so that its largest magnitude is in [1, 2) and no square
/// overflows or underflows. A row with a NaN or inf becomes zero.
template <class T>
struct ScaleRow {
  using Shared = SumShared;
  In<T> x;
  Index n;
  Out<double> scaled;
  Out<int> exponents;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index row) const {
    const In<T> in = x + row * n;
    const auto larger = [](double& a, double b) { a = std::isnan(a) || a > b ? a : b; };
    const double largest = block.reduce(
        shared.sums, n, 0.0, [&](double& a, Index j) { larger(a, std::abs(static_cast<double>(widen(in[j])))); },
        larger);
    const bool is_finite = std::isfinite(largest);
    const int exponent = is_finite && largest > 0.0 ? std::ilogb(largest) : 0;
    block.threads([&](int t) {
      if (t == 0) exponents[row] = is_finite ? exponent : not_finite;
      for (Index j = t; j < n; j += Block::size) {
        scaled[row * n + j] = is_finite ? std::ldexp(static_cast<double>(widen(in[j])), -exponent) : 0.0;
      }
    });
  }
};

/// Normalises a row, which is orthogonal to all earlier rows, and sets `diagonal` to its length. Both become zero if
/// the length is at most `tolerance` times the root of `initial_square`.
struct FinishRow {
  using Shared = SumShared;
  Out<double> row;
  Index n;
  double tolerance;
  In<double> initial_square;
  Out<double> diagonal;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const double length = std::sqrt(block.sum(shared.sums, n, [&](Index j) { return row[j] * row[j]; }));
    const bool independent = length > tolerance * std::sqrt(initial_square[0]);
    block.threads([&](int t) {
      if (t == 0) diagonal[0] = independent ? length : 0.0;
      for (Index j = t; j < n; j += Block::size) row[j] = independent ? row[j] / length : 0.0;
    });
  }
};

/// Computes the squared distance of every row from the span of earlier rows, divided by its squared length.
struct RemainingShare {
  In<double> factor;
  In<double> squares;
  Index rows;
  Out<double> shares;
  PERISCOPE_HOST_DEVICE void operator()(Index t) const {
    shares[t] = factor[t * rows + t] * factor[t * rows + t] / squares[t];
  }
};

/// Writes the lower triangle. Multiplies row t by 2^exponents[t] to undo ScaleRow; non-finite rows become NaN.
template <class T>
struct WriteLower {
  In<double> factor;
  In<int> exponents;
  Out<T> lower;
  Index rows;
  PERISCOPE_HOST_DEVICE void operator()(Index index) const {
    const Index t = index / rows;
    const double value =
        exponents[t] == not_finite ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(factor[index], exponents[t]);
    lower[index] = from_double<T>(index % rows > t ? 0.0 : value);
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
