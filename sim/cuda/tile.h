#pragma once

#include <cmath>
#include <limits>

#include "sim/cuda/columns.h"
#include "sim/cuda/digits.h"

/// Statistics of the second pass over a signal, by tiles of rows and columns.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Computes the column sums of unit rows, the column maxima, and the candidates for the `rank` largest elements: all
/// whose first digit is not below that of the row maximum of rank `rank`. This row maximum is an element and is at most
/// the element of rank `rank`, so the candidates contain the `rank` largest. With fewer rows, all elements are
/// candidates.
template <class T>
struct MeasureTile {
  static constexpr int size = static_cast<int>(Pack<T>::size);
  static constexpr int packs = 32;  ///< per row of a tile
  static constexpr int groups = Block::size / packs;
  static constexpr int cols = packs * size;
  struct Shared {
    double sums[groups][size][packs + 2];  // padded, so that threads access different banks
    MagnitudeBits<T> maxima[groups][size][packs + 2];
    double inverse_lengths[piece_rows];
    DigitShared digit;
  };
  In<T> x;
  Index n;               ///< columns of x
  Index tokens, pieces;  ///< per sequence: rows, and groups of piece_rows rows
  In<double> inverse_lengths;
  Out<double> unit_sums;    ///< [sequences · pieces, n], or null
  Out<double> maxima;       ///< [sequences · pieces, n], or null
  In<unsigned> row_maxima;  ///< histogram of the first digits of the row maxima [bins]
  unsigned rank;
  Out<unsigned> candidates;        ///< indices, or null
  Out<unsigned> candidate_number;  ///< zero

  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    const Index across = ceil_div(n, cols);
    const Index piece = b / across;
    const Index first_col = b % across * cols;
    const Index sequence_begin = piece / pieces * tokens;
    const Index first = sequence_begin + piece % pieces * piece_rows;
    const Index end = first + piece_rows < sequence_begin + tokens ? first + piece_rows : sequence_begin + tokens;
    auto min_candidate = std::numeric_limits<MagnitudeBits<T>>::max();  // no magnitude has these bits
    if (candidates) {
      const RankedDigit digit = find_digit(block, shared.digit, row_maxima, rank);
      min_candidate =
          static_cast<MagnitudeBits<T>>(MagnitudeBits<T>(digit.digit) << (bits_of_magnitude<T> - digit_bits));
    }
    block.threads([&](int t) {
      if (unit_sums && t < end - first) shared.inverse_lengths[t] = inverse_lengths[first + t];
    });
    block.threads([&](int t) {
      const Index col = first_col + Index{t % packs} * size;
      const int valid = static_cast<int>(n - col < size ? n - col : size);
      double sums[size] = {};
      MagnitudeBits<T> largest[size] = {};
      for (Index row = first + t / packs; valid > 0 && row < end; row += groups) {
        const Pack<T> pack = x.pack(row * n + col, valid);
        for (int v = 0; v < size; ++v) {
          const T element = pack.elements[v];
          if (unit_sums) {
            sums[v] = std::fma(static_cast<double>(widen(element)), shared.inverse_lengths[row - first], sums[v]);
          }
          const MagnitudeBits<T> bits = without_nan<T>(magnitude_bits(element));
          largest[v] = largest[v] < bits ? bits : largest[v];
          if (bits >= min_candidate && v < valid) {
            candidates[atomic_add(candidate_number[0], 1)] = static_cast<unsigned>(row * n + col + v);
          }
        }
      }
      for (int v = 0; v < size; ++v) {
        shared.sums[t / packs][v][t % packs] = sums[v];
        shared.maxima[t / packs][v][t % packs] = largest[v];
      }
    });
    block.threads([&](int t) {
      const Index at = piece * n + first_col + t;
      if (t >= cols || first_col + t >= n) return;
      double sum = 0.0;
      MagnitudeBits<T> largest = 0;
      for (int group = 0; group < groups; ++group) {
        const MagnitudeBits<T> bits = shared.maxima[group][t % size][t / size];
        sum += shared.sums[group][t % size][t / size];
        largest = largest < bits ? bits : largest;
      }
      if (unit_sums) unit_sums[at] = sum;
      if (maxima) maxima[at] = magnitude_of<T>(largest);
    });
  }
};

/// Computes the mean cosine from the sums of the unit rows of each sequence, unit_sums [sequences, n].
struct MeanCosine {
  using Shared = SumShared;
  In<double> unit_sums;
  Index sequences, tokens, n;
  Out<double> out;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const double squares = block.reduce(
        shared.sums, sequences * n, 0.0, [&](double& s, Index i) { s = std::fma(unit_sums[i], unit_sums[i], s); },
        [](double& s, double other) { s += other; });
    block.threads([&](int t) {
      if (t != 0) return;
      const auto own = static_cast<double>(tokens);
      const auto all = static_cast<double>(sequences);
      out[0] =
          tokens < 2 ? std::numeric_limits<double>::quiet_NaN() : (squares - all * own) / (all * own * (own - 1.0));
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
