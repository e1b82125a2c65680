#pragma once

#include <cmath>

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

/// Computes the length of every row of x [·, n].
struct RowLength {
  using Shared = SumShared;
  In<double> x;
  Index n;
  Out<double> lengths;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index row) const {
    const In<double> in = x + row * n;
    const double squares = block.sum(shared.sums, n, [in](Index j) { return in[j] * in[j]; });
    block.threads([&](int t) {
      if (t == 0) lengths[row] = std::sqrt(squares);
    });
  }
};

/// lower(first + i, j) += coefficients(i, j) for j < first.
struct AddCoefficients {
  In<double> coefficients;
  Out<double> lower;
  Index rows, first;
  PERISCOPE_HOST_DEVICE void operator()(Index index) const {
    lower[(first + index / first) * rows + index % first] += coefficients[index];
  }
};

/// Orthonormalises rows first … first + count − 1, which are already orthogonal to all earlier rows, in one block. A
/// row becomes zero if its remaining length is at most `tolerance` times its entry in `lengths`.
struct FinishPanel {
  static constexpr int rows_at_once = 32;
  static constexpr int threads_per_row = Block::size / rows_at_once;
  struct Shared {
    double sums[Block::size];
    double coefficients[rows_at_once];
  };
  Out<double> basis;
  Out<double> lower;
  In<double> lengths;
  double tolerance;
  Index rows, n, first, count;

  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    for (Index t = first; t < first + count; ++t) finish(block, shared, t);
  }

 private:
  PERISCOPE_HOST_DEVICE double length(const Block& block, Shared& shared, Index t) const {
    const In<double> row = basis + t * n;
    return std::sqrt(block.sum(shared.sums, n, [row](Index j) { return row[j] * row[j]; }));
  }

  /// Subtracts from row t its projections onto rows begin … end − 1.
  PERISCOPE_HOST_DEVICE void project_out(const Block& block, Shared& shared, Index t, Index begin, Index end) const {
    const Out<double> row = basis + t * n;
    for (Index i = begin; i < end; i += rows_at_once) {
      const Index others = end - i < rows_at_once ? end - i : rows_at_once;
      block.threads([&](int thread) {
        const Index other = thread / threads_per_row;
        double sum = 0.0;
        if (other < others) {
          for (Index j = thread % threads_per_row; j < n; j += threads_per_row) {
            sum += row[j] * basis[(i + other) * n + j];
          }
        }
        shared.sums[thread] = sum;
      });
      block.threads([&](int thread) {
        if (thread >= others) return;
        double sum = 0.0;
        for (int part = 0; part < threads_per_row; ++part) sum += shared.sums[thread * threads_per_row + part];
        shared.coefficients[thread] = sum;
        lower[t * rows + i + thread] += sum;
      });
      block.threads([&](int thread) {
        for (Index j = thread; j < n; j += Block::size) {
          double value = row[j];
          for (Index other = 0; other < others; ++other)
            value -= shared.coefficients[other] * basis[(i + other) * n + j];
          row[j] = value;
        }
      });
    }
  }

  PERISCOPE_HOST_DEVICE void finish(const Block& block, Shared& shared, Index t) const {
    const double initial = length(block, shared, t);
    for (int twice = 0; twice < 2; ++twice) project_out(block, shared, t, first, t);
    // The rounding error along rows of earlier panels is small relative to the initial length. If little of the row
    // remains, this error must be projected out again.
    constexpr double small_fraction = 0.1;
    if (length(block, shared, t) < small_fraction * initial) {
      for (int twice = 0; twice < 2; ++twice) project_out(block, shared, t, 0, t);
    }
    const double remaining = length(block, shared, t);
    const bool independent = remaining > tolerance * lengths[t];
    const Out<double> row = basis + t * n;
    block.threads([&](int thread) {
      if (thread == 0) lower[t * rows + t] = independent ? remaining : 0.0;
      for (Index j = thread; j < n; j += Block::size) row[j] = independent ? row[j] / remaining : 0.0;
    });
  }
};

/// Sets `usable` to 0 if there is no Cholesky factor, or if the squared distance of a row from the span of earlier rows
/// is at most `min_square` times its squared norm; else to 1.
struct CheckFactor {
  struct Shared {
    int failures[Block::size];
  };
  In<double> factor;
  In<double> lengths;
  In<int> info;
  double min_square;
  Index rows;
  Out<int> usable;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const int failures = block.reduce(
        shared.failures, rows, 0,
        [&](int& bad, Index t) {
          const double remaining = factor[t * rows + t];
          if (!(remaining * remaining > min_square * lengths[t] * lengths[t])) ++bad;
        },
        [](int& a, int b) { a += b; });
    block.threads([&](int t) {
      if (t == 0) usable[0] = failures == 0 && info[0] == 0 ? 1 : 0;
    });
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
    const double value = exponents[t] == not_finite ? std::sqrt(-1.0) : std::ldexp(factor[index], exponents[t]);
    lower[index] = from_double<T>(index % rows > t ? 0.0 : value);
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
