#pragma once

#include "sim/cuda/columns.h"
#include "sim/cuda/digits.h"

/// What is measured in a second pass over a signal, in tiles of rows and columns.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Computes of every tile the column sums of the unit rows, the column maxima, and the candidates for the elements up
/// to `rank`: all whose first digit is at least that of the row maximum of this rank.
template <class T>
struct MeasureTile {
  static constexpr int packs = 32;  ///< per row of a tile
  static constexpr int groups = Block::size / packs;
  static constexpr int cols = packs * static_cast<int>(Pack<T>::size);
  struct Shared {
    double sums[groups][cols];
    Key<T> maxima[groups][cols];
    double inverse_lengths[piece_rows];
    DigitShared digit;
  };
  In<T> x;
  Index n;               ///< columns of x
  Index tokens, pieces;  ///< rows and tiles per sequence
  In<double> inverse_lengths;
  Out<double> unit_sums;    ///< [sequences · pieces, n], or null
  Out<double> maxima;       ///< [sequences · pieces, n], or null
  In<unsigned> row_maxima;  ///< number of row maxima with each first digit
  unsigned rank;
  unsigned* candidate_count;  ///< zero; null: no candidates
  Out<unsigned> candidates;   ///< indices

  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    const Index across = (n + cols - 1) / cols;
    const Index piece = b / across;
    const Index first_col = b % across * cols;
    const Index sequence = piece / pieces * tokens;
    const Index first = sequence + piece % pieces * piece_rows;
    const Index end = first + piece_rows < sequence + tokens ? first + piece_rows : sequence + tokens;
    auto least = std::numeric_limits<Key<T>>::max();
    if (candidate_count != nullptr) {
      const RankedDigit digit = find_digit(block, shared.digit, row_maxima, rank);
      least = static_cast<Key<T>>(Key<T>{static_cast<Key<T>>(digit.digit)} << (key_bits<T> - digit_bits));
    }
    block.threads([&](int t) {
      if (unit_sums && t < end - first) shared.inverse_lengths[t] = inverse_lengths[first + t];
    });
    block.threads([&](int t) {
      const int col = t % packs * static_cast<int>(Pack<T>::size);
      const Index valid = n - first_col - col;
      double sums[Pack<T>::size] = {};
      Key<T> largest[Pack<T>::size] = {};
      for (Index row = first + t / packs; valid > 0 && row < end; row += groups) {
        const Index at = row * n + first_col + col;
        const Pack<T> pack = x.pack(at, valid);
        for (int v = 0; v < Pack<T>::size; ++v) {
          const Key<T> key = without_nan<T>(key_of(pack.elements[v]));
          if (unit_sums) {
            sums[v] =
                std::fma(static_cast<double>(widen(pack.elements[v])), shared.inverse_lengths[row - first], sums[v]);
          }
          largest[v] = largest[v] < key ? key : largest[v];
          if (key >= least && v < valid) candidates[add_to(*candidate_count, 1)] = static_cast<unsigned>(at + v);
        }
      }
      for (int v = 0; v < Pack<T>::size; ++v) {
        shared.sums[t / packs][col + v] = sums[v];
        shared.maxima[t / packs][col + v] = largest[v];
      }
    });
    block.threads([&](int t) {
      if (t >= cols || first_col + t >= n) return;
      double sum = 0.0;
      Key<T> largest = 0;
      for (int group = 0; group < groups; ++group) {
        sum += shared.sums[group][t];
        largest = largest < shared.maxima[group][t] ? shared.maxima[group][t] : largest;
      }
      if (unit_sums) unit_sums[piece * n + first_col + t] = sum;
      if (maxima) maxima[piece * n + first_col + t] = magnitude_of<T>(largest);
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
      out[0] = tokens < 2 ? std::sqrt(-1.0) : (squares - all * own) / (all * own * (own - 1.0));
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
