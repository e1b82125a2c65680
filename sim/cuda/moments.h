#pragma once

#include <cmath>

#include "sim/core/statistics.h"
#include "sim/cuda/launch.h"

/// Row statistics in double, with one block of threads per row.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Returns |x|; NaN counts as infinite, so that it sorts as the largest.
PERISCOPE_HOST_DEVICE inline double ordered_magnitude(double x) { return std::isnan(x) ? HUGE_VAL : std::abs(x); }

/// Sums over a row, and its largest magnitude.
struct RowSums {
  double sum;
  double squares;
  double dots;
  double largest;  ///< largest |x|; NaN if an element is NaN
};

/// Σ (x − mean)² and Σ (x − mean)⁴ of a row.
struct CentredSums {
  double second;
  double fourth;
};

/// The position of a statistic in row_statistics.
template <Statistic statistic>
inline constexpr Index place_of = static_cast<Index>(row_statistic(statistic));

/// Measures one row. The outputs have the layout of StatisticsLayout and are null if not requested.
template <class T>
struct MeasureRow {
  struct Shared {
    RowSums sums[Block::size];
    CentredSums centred[Block::size];
  };
  const T* x;
  const T* other;
  Index rows, n;
  double* moments;
  double* squares;
  double* dots;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index row) const {
    const T* in = x + row * n;
    const auto at = [in](Index j) { return static_cast<double>(widen(in[j])); };
    const auto larger = [](double a, double b) { return std::isnan(a) || a > b ? a : b; };
    const RowSums s = block.reduce(
        shared.sums, n, RowSums{0.0, 0.0, 0.0, 0.0},
        [&](RowSums& a, Index j) {
          const double value = at(j);
          a.sum += value;
          a.squares += value * value;
          if (dots != nullptr) a.dots += value * static_cast<double>(widen(other[row * n + j]));
          a.largest = larger(a.largest, std::abs(value));
        },
        [&](RowSums& a, const RowSums& b) {
          a.sum += b.sum;
          a.squares += b.squares;
          a.dots += b.dots;
          a.largest = larger(a.largest, b.largest);
        });
    const auto count = static_cast<double>(n);
    CentredSums c{0.0, 0.0};
    if (moments != nullptr) {
      const double mean = s.sum / count;
      c = block.reduce(
          shared.centred, n, CentredSums{0.0, 0.0},
          [&](CentredSums& a, Index j) {
            const double square = (at(j) - mean) * (at(j) - mean);
            a.second += square;
            a.fourth += square * square;
          },
          [](CentredSums& a, const CentredSums& b) {
            a.second += b.second;
            a.fourth += b.fourth;
          });
    }
    block.threads([&](int t) {
      if (t != 0) return;
      if (squares != nullptr) squares[row] = s.squares;
      if (dots != nullptr) dots[row] = s.dots;
      if (moments == nullptr) return;
      moments[place_of<Statistic::mean> * rows + row] = s.sum / count;
      moments[place_of<Statistic::second_moment> * rows + row] = s.squares / count;
      moments[place_of<Statistic::variance> * rows + row] = c.second / count;
      moments[place_of<Statistic::kurtosis> * rows + row] = count * c.fourth / (c.second * c.second);
      moments[place_of<Statistic::maximum> * rows + row] = s.largest;
    });
  }
};

/// Element (row, j) divided by the Euclidean norm of its row.
template <class T>
struct UnitRowTerm {
  const T* x;
  const double* squares;
  Index cols;
  PERISCOPE_HOST_DEVICE double operator()(Index row, Index j) const {
    return static_cast<double>(widen(x[row * cols + j])) / std::sqrt(squares[row]);
  }
};

template <class T>
struct MagnitudeTerm {
  const T* x;
  Index cols;
  PERISCOPE_HOST_DEVICE double operator()(Index row, Index j) const {
    return ordered_magnitude(static_cast<double>(widen(x[row * cols + j])));
  }
};

/// Computes the mean cosine from the sums of the unit rows of each sequence, unit_sums [sequences, n].
struct MeanCosine {
  using Shared = SumShared;
  const double* unit_sums;
  Index sequences, tokens, n;
  double* out;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const double squares = block.sum(shared.sums, sequences * n, [&](Index i) { return unit_sums[i] * unit_sums[i]; });
    block.threads([&](int t) {
      if (t != 0) return;
      const auto own = static_cast<double>(tokens);
      const auto all = static_cast<double>(sequences);
      *out = tokens < 2 ? std::sqrt(-1.0) : (squares - all * own) / (all * own * (own - 1.0));
    });
  }
};

/// Sums `count` numbers in one block.
struct Sum {
  using Shared = SumShared;
  const double* values;
  Index count;
  double* out;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const double total = block.sum(shared.sums, count, [&](Index i) { return values[i]; });
    block.threads([&](int t) {
      if (t == 0) *out = total;
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
