#pragma once

#include <cmath>

#include "sim/core/statistics.h"
#include "sim/cuda/digits.h"

/// Row statistics in double. Products are fused explicitly, so that every compiler computes the same bits.
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

/// Measures several rows per block, each with a team of threads that reads the row once: shared memory keeps it for the
/// centred sums, unless it is too long. Outputs have the layout of StatisticsLayout and are null if not requested.
template <class T>
struct MeasureRows {
  static constexpr Index cached_packs = 1280;
  struct Shared {
    Pack<T> cache[cached_packs];
    RowSums sums[Block::size];
    CentredSums centred[Block::size];
    unsigned counts[bins];
  };
  In<T> x;
  In<T> other = {};
  Index rows, n;
  Out<double> moments = {};
  Out<double> squares = {};
  Out<double> dots = {};
  Out<double> inverse_lengths = {};
  /// Numbers of magnitudes by their first digit: of all elements, or of the largest one of every thread.
  Out<unsigned> counts = {};
  bool count_all = false;

  [[nodiscard]] PERISCOPE_HOST_DEVICE Index packs() const { return (n + Pack<T>::size - 1) / Pack<T>::size; }
  /// Number of rows per block: 1, 2, 4 or 8.
  [[nodiscard]] PERISCOPE_HOST_DEVICE int teams() const {
    int count = 8;
    while (count > 1 && count * packs() > cached_packs) count /= 2;
    return count;
  }

  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    const int team = Block::size / teams();
    const bool is_cached = teams() * packs() <= cached_packs;
    const auto row_of = [&](int t) { return b * teams() + t / team; };
    const auto cache_at = [&](int t, Index pack) -> Pack<T>& { return shared.cache[t / team * packs() + pack]; };
    const auto for_packs = [&](int t, const auto& visit) {
      for (Index p = t % team; row_of(t) < rows && p < packs(); p += team) {
        const Index left = n - p * Pack<T>::size;
        visit(p, row_of(t) * n + p * Pack<T>::size, left < Pack<T>::size ? left : Pack<T>::size);
      }
    };
    if (counts) {
      block.threads([&](int t) {
        for (int bin = t; bin < bins; bin += Block::size) shared.counts[bin] = 0;
      });
    }
    block.threads([&](int t) {
      RowSums s{0.0, 0.0, 0.0, 0.0};
      Key<T> largest = 0;
      for_packs(t, [&](Index p, Index at, Index valid) {
        const Pack<T> pack = x.pack(at, valid);
        if (is_cached) cache_at(t, p) = pack;
        for (Index v = 0; v < Pack<T>::size; ++v) {
          const auto value = static_cast<double>(widen(pack.elements[v]));
          s.sum += value;
          s.squares = std::fma(value, value, s.squares);
          const Key<T> bits = bits_of_magnitude(pack.elements[v]);
          largest = largest < bits ? bits : largest;
          if (count_all && v < valid) add_shared(&shared.counts[first_digit<T>(without_nan<T>(bits))], 1);
        }
        if (!dots) return;
        const Pack<T> factors = other.pack(at, valid);
        for (Index v = 0; v < Pack<T>::size; ++v) {
          const auto value = static_cast<double>(widen(pack.elements[v]));
          s.dots = std::fma(value, static_cast<double>(widen(factors.elements[v])), s.dots);
        }
      });
      s.largest = magnitude_of<T>(largest);
      shared.sums[t] = s;
      if (counts && !count_all && row_of(t) < rows && t % team < packs()) {
        add_shared(&shared.counts[first_digit<T>(without_nan<T>(largest))], 1);
      }
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
        for_packs(t, [&](Index p, Index at, Index valid) {
          const Pack<T> pack = is_cached ? cache_at(t, p) : x.pack(at, valid);
          for (Index v = 0; v < Pack<T>::size; ++v) {
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
      for (int bin = t; counts && bin < bins; bin += Block::size) {
        if (shared.counts[bin] > 0) counts.add(bin, shared.counts[bin]);
      }
      const Index row = row_of(t);
      if (t % team != 0 || row >= rows) return;
      const RowSums& s = shared.sums[t];
      const CentredSums& c = shared.centred[t];
      if (squares) squares[row] = s.squares;
      if (dots) dots[row] = s.dots;
      if (inverse_lengths) inverse_lengths[row] = 1.0 / std::sqrt(s.squares);
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
  for_blocks(execution, (kernel.rows + kernel.teams() - 1) / kernel.teams(), kernel);
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
