#pragma once

#include <cmath>

#include "sim/core/statistics.h"
#include "sim/cuda/digits.h"

/// Row statistics in double. Sums of products use std::fma, so that host and GPU compute the same bits.
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

/// Measures one, two or four rows per block, each with a team of threads. Shared memory caches 20 KiB of the rows for
/// the centred sums; only the rest of longer rows is read again. Outputs have the layout of StatisticsLayout and are
/// null if not requested.
template <class T>
struct MeasureRows {
  static constexpr Index cached_packs = 1280;
  struct Shared {
    Pack<T> cache[cached_packs];
    RowSums sums[Block::size];
    CentredSums centred[Block::size];
  };
  In<T> x;
  In<T> other = {};
  Index rows, n;
  Out<double> moments = {};
  Out<double> squares = {};
  Out<double> dots = {};
  Out<double> inverse_lengths = {};
  Out<unsigned> row_maxima = {};  ///< histogram of the first digits of the row maxima [bins]

  [[nodiscard]] PERISCOPE_HOST_DEVICE Index packs() const { return ceil_div(n, Pack<T>::size); }
  [[nodiscard]] PERISCOPE_HOST_DEVICE int rows_at_once() const {
    return 4 * packs() <= cached_packs ? 4 : 2 * packs() <= cached_packs ? 2 : 1;
  }

  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    const int team = Block::size / rows_at_once();
    const auto row_of = [&](int t) { return b * rows_at_once() + t / team; };
    // Calls use(place in the cache, first element, number of elements) for the packs of thread t.
    const auto for_packs = [&](int t, const auto& use) {
      for (Index p = t % team; row_of(t) < rows && p < packs(); p += team) {
        const Index left = n - p * Pack<T>::size;
        const int valid = left < Pack<T>::size ? static_cast<int>(left) : static_cast<int>(Pack<T>::size);
        use(t / team * packs() + p, row_of(t) * n + p * Pack<T>::size, valid);
      }
    };
    block.threads([&](int t) {
      RowSums s{0.0, 0.0, 0.0, 0.0};
      MagnitudeBits<T> largest = 0;
      for_packs(t, [&](Index place, Index at, int valid) {
        const Pack<T> pack = x.pack(at, valid);
        if (place < cached_packs) shared.cache[place] = pack;
        for (const T& element : pack.elements) {
          const auto value = static_cast<double>(widen(element));
          s.sum += value;
          s.squares = std::fma(value, value, s.squares);
          largest = largest < magnitude_bits(element) ? magnitude_bits(element) : largest;
        }
        if (!dots) return;
        const Pack<T> factors = other.pack(at, valid);
        for (int v = 0; v < Pack<T>::size; ++v) {
          const auto factor = static_cast<double>(widen(factors.elements[v]));
          s.dots = std::fma(static_cast<double>(widen(pack.elements[v])), factor, s.dots);
        }
      });
      s.largest = magnitude_of<T>(largest);
      shared.sums[t] = s;
    });
    block.merge(shared.sums, team, [](RowSums& a, const RowSums& c) {
      a.sum += c.sum;
      a.squares += c.squares;
      a.dots += c.dots;
      a.largest = std::isnan(a.largest) || a.largest > c.largest ? a.largest : c.largest;
    });
    const auto count = static_cast<double>(n);
    if (moments) {
      block.threads([&](int t) {
        CentredSums c{0.0, 0.0};
        const double mean = shared.sums[t / team * team].sum / count;
        for_packs(t, [&](Index place, Index at, int valid) {
          const Pack<T> pack = place < cached_packs ? shared.cache[place] : x.pack(at, valid);
          for (int v = 0; v < Pack<T>::size; ++v) {
            const double centred = v < valid ? static_cast<double>(widen(pack.elements[v])) - mean : 0.0;
            const double square = centred * centred;
            c.second = std::fma(centred, centred, c.second);
            c.fourth = std::fma(square, square, c.fourth);
          }
        });
        shared.centred[t] = c;
      });
      block.merge(shared.centred, team, [](CentredSums& a, const CentredSums& c) {
        a.second += c.second;
        a.fourth += c.fourth;
      });
    }
    block.threads([&](int t) {
      const Index row = row_of(t);
      if (t % team != 0 || row >= rows) return;
      const RowSums& s = shared.sums[t];
      const CentredSums& c = shared.centred[t];
      if (squares) squares[row] = s.squares;
      if (dots) dots[row] = s.dots;
      if (inverse_lengths) inverse_lengths[row] = 1.0 / std::sqrt(s.squares);
      const MagnitudeBits<T> largest = without_nan<T>(magnitude_bits(from_double<T>(s.largest)));
      if (row_maxima) atomic_add(row_maxima[largest >> (bits_of_magnitude<T> - digit_bits)], 1);
      if (!moments) return;
      moments[place_of<Statistic::mean> * rows + row] = s.sum / count;
      moments[place_of<Statistic::second_moment> * rows + row] = s.squares / count;
      moments[place_of<Statistic::variance> * rows + row] = c.second / count;
      moments[place_of<Statistic::kurtosis> * rows + row] = count * c.fourth / (c.second * c.second);
      moments[place_of<Statistic::maximum> * rows + row] = s.largest;
    });
  }
};

template <class T>
void measure_rows(const Execution& execution, const MeasureRows<T>& kernel) {
  for_blocks(execution, ceil_div(kernel.rows, kernel.rows_at_once()), kernel);
}

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
