#pragma once

#include <cmath>

#include "sim/core/statistics.h"
#include "sim/cuda/digits.h"

/// Row statistics in double, with one block of threads per row. Products are fused explicitly, so that every compiler
/// computes the same bits.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

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

/// Measures one row, which is read once: shared memory keeps the first 20 KiB for the centred sums. The outputs have
/// the layout of StatisticsLayout and are null if not requested.
template <class T>
struct MeasureRow {
  static constexpr Index kept_packs = 1280;
  struct Shared {
    Pack<T> kept[kept_packs];
    RowSums sums[Block::size];
    CentredSums centred[Block::size];
  };
  In<T> x;
  In<T> other;
  Index rows, n;
  Out<double> moments;
  Out<double> squares;
  Out<double> dots;
  Out<double> inverse_lengths = {};
  Out<unsigned> maxima = {};  ///< number of row maxima with each first digit
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index row) const {
    const Index packs = (n + Pack<T>::size - 1) / Pack<T>::size;
    const RowSums s = block.reduce(
        shared.sums, packs, RowSums{0.0, 0.0, 0.0, 0.0},
        [&](RowSums& a, Index p) {
          const Index first = p * Pack<T>::size;
          const Pack<T> pack = x.pack(row * n + first, n - first);
          if (p < kept_packs) shared.kept[p] = pack;
          Key<T> largest = 0;
          for (const T& element : pack.elements) {
            const auto value = static_cast<double>(widen(element));
            a.sum += value;
            a.squares = std::fma(value, value, a.squares);
            largest = largest < key_of(element) ? key_of(element) : largest;
          }
          a.largest = larger(a.largest, magnitude_of<T>(largest));
          if (!dots) return;
          const Pack<T> factors = other.pack(row * n + first, n - first);
          for (Index v = 0; v < Pack<T>::size; ++v) {
            const auto factor = static_cast<double>(widen(factors.elements[v]));
            a.dots = std::fma(static_cast<double>(widen(pack.elements[v])), factor, a.dots);
          }
        },
        [](RowSums& a, const RowSums& b) {
          a.sum += b.sum;
          a.squares += b.squares;
          a.dots += b.dots;
          a.largest = larger(a.largest, b.largest);
        });
    const auto count = static_cast<double>(n);
    CentredSums c{0.0, 0.0};
    if (moments) {
      const double mean = s.sum / count;
      c = block.reduce(
          shared.centred, packs, CentredSums{0.0, 0.0},
          [&](CentredSums& a, Index p) {
            const Index first = p * Pack<T>::size;
            const Pack<T> pack = p < kept_packs ? shared.kept[p] : x.pack(row * n + first, n - first);
            for (Index v = 0; v < Pack<T>::size; ++v) {
              const double centred = first + v < n ? static_cast<double>(widen(pack.elements[v])) - mean : 0.0;
              const double square = centred * centred;
              a.second = std::fma(centred, centred, a.second);
              a.fourth = std::fma(square, square, a.fourth);
            }
          },
          [](CentredSums& a, const CentredSums& b) {
            a.second += b.second;
            a.fourth += b.fourth;
          });
    }
    block.threads([&](int t) {
      if (t != 0) return;
      if (squares) squares[row] = s.squares;
      if (dots) dots[row] = s.dots;
      if (inverse_lengths) inverse_lengths[row] = 1.0 / std::sqrt(s.squares);
      if (maxima) add_to(maxima[first_digit<T>(without_nan<T>(key_of(from_double<T>(s.largest))))], 1);
      if (!moments) return;
      moments[place_of<Statistic::mean> * rows + row] = s.sum / count;
      moments[place_of<Statistic::second_moment> * rows + row] = s.squares / count;
      moments[place_of<Statistic::variance> * rows + row] = c.second / count;
      moments[place_of<Statistic::kurtosis> * rows + row] = count * c.fourth / (c.second * c.second);
      moments[place_of<Statistic::maximum> * rows + row] = s.largest;
    });
  }

 private:
  PERISCOPE_HOST_DEVICE static double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
};

/// Sums `count` numbers in one block.
struct Sum {
  using Shared = SumShared;
  In<double> values;
  Index count;
  Out<double> out;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const double total = block.sum(shared.sums, count, [&](Index i) { return values[i]; });
    block.threads([&](int t) {
      if (t == 0) out[0] = total;
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
