#pragma once

#include <cmath>

#include "sim/cuda/launch.h"

/// Kernels of row_basis, on rows in double.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Stands for the exponent of a row that is not finite.
inline constexpr int not_finite = 1 << 30;

/// scaled = x in double, each row times a power of two that brings its largest magnitude to between 1 and 2, so that no
/// square leaves the range of double; `exponents` has these powers. A row that is not finite becomes zero.
template <class T>
struct ScaleRow {
  using Shared = SumShared;
  const T* x;
  Index n;
  double* scaled;
  int* exponents;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index row) const {
    const T* in = x + row * n;
    const auto larger = [](double& a, double b) { a = std::isnan(a) || a > b ? a : b; };
    const double largest = block.reduce(
        shared.sums, n, 0.0, [&](double& a, Index j) { larger(a, std::abs(static_cast<double>(widen(in[j])))); },
        larger);
    const bool finite = std::isfinite(largest);
    const int exponent = finite && largest > 0.0 ? std::ilogb(largest) : 0;
    block.threads([&](int t) {
      if (t == 0) exponents[row] = finite ? exponent : not_finite;
      for (Index j = t; j < n; j += Block::size) {
        scaled[row * n + j] = finite ? std::ldexp(static_cast<double>(widen(in[j])), -exponent) : 0.0;
      }
    });
  }
};

/// The length of every row of x [·, n].
struct RowLength {
  using Shared = SumShared;
  const double* x;
  Index n;
  double* lengths;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index row) const {
    const double* in = x + row * n;
    const double squares = block.sum(shared.sums, n, [in](Index j) { return in[j] * in[j]; });
    block.threads([&](int t) {
      if (t == 0) lengths[row] = std::sqrt(squares);
    });
  }
};

/// lower(first + i, j) += along(i, j) for j < first.
struct AddCoefficients {
  const double* along;
  double* lower;
  Index rows, first;
  PERISCOPE_HOST_DEVICE void operator()(Index index) const {
    lower[(first + index / first) * rows + index % first] += along[index];
  }
};

/// Orthonormalizes rows first … first + count − 1, already orthogonal to all rows before them, in one block; a row
/// becomes zero if less than `share` of its length in `lengths` is left.
struct FinishPanel {
  static constexpr int rows_at_once = 32;
  static constexpr int threads_per_row = Block::size / rows_at_once;
  struct Shared {
    double sums[Block::size];
    double along[rows_at_once];
  };
  double* basis;
  double* lower;
  const double* lengths;
  double share;
  Index rows, n, first, count;

  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    for (Index t = first; t < first + count; ++t) finish(block, shared, t);
  }

 private:
  PERISCOPE_HOST_DEVICE double length(const Block& block, Shared& shared, Index t) const {
    const double* row = basis + t * n;
    return std::sqrt(block.sum(shared.sums, n, [row](Index j) { return row[j] * row[j]; }));
  }

  /// Takes the part along rows begin … end − 1 from row t.
  PERISCOPE_HOST_DEVICE void take_out(const Block& block, Shared& shared, Index t, Index begin, Index end) const {
    double* row = basis + t * n;
    for (Index i = begin; i < end; i += rows_at_once) {
      const Index some = end - i < rows_at_once ? end - i : rows_at_once;
      block.threads([&](int thread) {
        const Index other = thread / threads_per_row;
        double sum = 0.0;
        if (other < some) {
          for (Index j = thread % threads_per_row; j < n; j += threads_per_row) {
            sum += row[j] * basis[(i + other) * n + j];
          }
        }
        shared.sums[thread] = sum;
      });
      block.threads([&](int thread) {
        if (thread >= some) return;
        double sum = 0.0;
        for (int part = 0; part < threads_per_row; ++part) sum += shared.sums[thread * threads_per_row + part];
        shared.along[thread] = sum;
        lower[t * rows + i + thread] += sum;
      });
      block.threads([&](int thread) {
        for (Index j = thread; j < n; j += Block::size) {
          double value = row[j];
          for (Index other = 0; other < some; ++other) value -= shared.along[other] * basis[(i + other) * n + j];
          row[j] = value;
        }
      });
    }
  }

  PERISCOPE_HOST_DEVICE void finish(const Block& block, Shared& shared, Index t) const {
    const double entered = length(block, shared, t);
    for (int twice = 0; twice < 2; ++twice) take_out(block, shared, t, first, t);
    // What rounding left along the rows before the panel was small beside the row as it entered. Where little of that
    // is left, it has to go once more.
    constexpr double little = 0.1;
    if (length(block, shared, t) < little * entered) {
      for (int twice = 0; twice < 2; ++twice) take_out(block, shared, t, 0, t);
    }
    const double left = length(block, shared, t);
    const bool independent = left > share * lengths[t];
    double* row = basis + t * n;
    block.threads([&](int thread) {
      if (thread == 0) lower[t * rows + t] = independent ? left : 0.0;
      for (Index j = thread; j < n; j += Block::size) row[j] = independent ? row[j] / left : 0.0;
    });
  }
};

/// Judges whether Cholesky's factor of the Gram matrix of rows will do: it exists, and of every row's square at least
/// `least_square` is outside the span of the rows before it.
struct CheckFactor {
  struct Shared {
    int failures[Block::size];
  };
  const double* factor;
  const double* lengths;
  const int* info;
  double least_square;
  Index rows;
  int* verdict;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const int failures = block.reduce(
        shared.failures, rows, 0,
        [&](int& bad, Index t) {
          const double left = factor[t * rows + t];
          if (!(left * left > least_square * lengths[t] * lengths[t])) ++bad;
        },
        [](int& a, int b) { a += b; });
    block.threads([&](int t) {
      if (t == 0) *verdict = failures == 0 && *info == 0 ? 1 : 0;
    });
  }
};

/// The lower half, back at the lengths of the rows.
template <class T>
struct WriteLower {
  const double* factor;
  const int* exponents;
  T* lower;
  Index rows;
  PERISCOPE_HOST_DEVICE void operator()(Index index) const {
    const Index t = index / rows;
    const double value = exponents[t] == not_finite ? std::sqrt(-1.0) : std::ldexp(factor[index], exponents[t]);
    lower[index] = from_double<T>(index % rows > t ? 0.0 : value);
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
