#pragma once

#include "sim/cuda/columns.h"
#include "sim/cuda/select.h"

/// What is measured in a second pass over a signal, in tiles of rows and columns.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Keys low … low + width.
template <class T>
struct KeyRange {
  Key<T> low = static_cast<Key<T>>(~Key<T>{0});  ///< no element has this key
  Key<T> width = 0;
  [[nodiscard]] PERISCOPE_HOST_DEVICE bool contains(Key<T> key) const {
    return static_cast<Key<T>>(key - low) <= width;
  }
};

/// Of every tile: the column sums of the unit rows, the column maxima, and the candidates of searches.
template <class T>
struct MeasureTile {
  static constexpr int packs = 32;  ///< per row of a tile
  static constexpr int groups = Block::size / packs;
  static constexpr Index cols = packs * Pack<T>::size;
  static constexpr unsigned listed = 64;  ///< with more candidates a tile is read again
  struct Shared {
    double sums[groups][cols];
    Key<T> maxima[groups][cols];
    double inverse_lengths[piece_rows];
    DigitShared digit;
    unsigned found[most_searches];  ///< number of candidates
    unsigned next[most_searches];   ///< where to write the next one
    unsigned list[most_searches][listed];
  };
  In<T> x;
  Index n;               ///< columns of x
  Index tokens;          ///< rows per sequence
  Index pieces;          ///< tiles per sequence, above one another
  In<double> inverse_lengths;
  Out<double> unit_sums; ///< [sequences · pieces, n], or null
  Out<double> maxima;    ///< [sequences · pieces, n], or null
  In<unsigned> counts;   ///< of MeasureRows
  Searches<T> searches;

  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    const Index across = (n + cols - 1) / cols;
    const Index piece = b / across;
    const Index first_col = b % across * cols;
    const Index sequence = piece / pieces * tokens;
    const Index first = sequence + piece % pieces * piece_rows;
    const Index end = first + piece_rows < sequence + tokens ? first + piece_rows : sequence + tokens;
    KeyRange<T> ranges[most_searches];  // empty without a search
    for (int s = 0; s < most_searches; ++s) {
      if (s < searches.count) ranges[s] = range_of(block, shared.digit, b, searches.all[s]);
    }
    const auto visit = [&](int t, const auto& use) {
      const Index j = first_col + t % packs * Pack<T>::size;
      const Index valid = n - j < Pack<T>::size ? n - j : Pack<T>::size;
      for (Index row = first + t / packs; valid > 0 && row < end; row += groups) {
        use(row, row * n + j, x.pack(row * n + j, valid), valid);
      }
    };
    block.threads([&](int t) {
      if (t < most_searches) shared.found[t] = 0;
      if (unit_sums && t < end - first) shared.inverse_lengths[t] = inverse_lengths[first + t];
    });
    block.threads([&](int t) {
      double sums[Pack<T>::size] = {};
      Key<T> largest[Pack<T>::size] = {};
      visit(t, [&](Index row, Index at, const Pack<T>& pack, Index valid) {
        const double inverse = shared.inverse_lengths[row - first];
        for (int v = 0; v < Pack<T>::size; ++v) {
          const Key<T> key = key_of(pack.elements[v]);
          if (unit_sums) sums[v] = std::fma(static_cast<double>(widen(pack.elements[v])), inverse, sums[v]);
          largest[v] = largest[v] < key ? key : largest[v];
          for (int s = 0; s < most_searches; ++s) {
            if (v >= valid || !ranges[s].contains(key)) continue;
            const unsigned place = add_shared(&shared.found[s], 1);
            if (place < listed) shared.list[s][place] = static_cast<unsigned>(at + v);
          }
        }
      });
      for (int v = 0; v < Pack<T>::size; ++v) {
        shared.sums[t / packs][t % packs * Pack<T>::size + v] = sums[v];
        shared.maxima[t / packs][t % packs * Pack<T>::size + v] = largest[v];
      }
    });
    block.threads([&](int t) {
      const Index at = piece * n + first_col + t;
      if (t >= cols || first_col + t >= n) return;
      double sum = 0.0;
      Key<T> largest = 0;
      for (int group = 0; group < groups; ++group) {
        sum += shared.sums[group][t];
        largest = largest < shared.maxima[group][t] ? shared.maxima[group][t] : largest;
      }
      if (unit_sums) unit_sums[at] = sum;
      if (maxima) maxima[at] = magnitude_of<T>(largest);
    });
    block.threads([&](int t) {
      if (t < searches.count && shared.found[t] > 0) {
        shared.next[t] = searches.all[t].counts.add(0, shared.found[t]);
      }
    });
    bool read_again = false;
    for (int s = 0; s < searches.count; ++s) read_again = read_again || shared.found[s] > listed;
    block.threads([&](int t) {
      for (int s = 0; s < searches.count; ++s) {
        const bool is_listed = shared.found[s] <= listed && static_cast<unsigned>(t) < shared.found[s];
        if (is_listed) searches.all[s].candidates[shared.next[s] + t] = shared.list[s][t];
      }
      if (!read_again) return;
      visit(t, [&](Index /*row*/, Index at, const Pack<T>& pack, Index valid) {
        for (int v = 0; v < Pack<T>::size; ++v) {
          const Key<T> key = key_of(pack.elements[v]);
          for (int s = 0; s < most_searches; ++s) {
            if (v >= valid || shared.found[s] <= listed || !ranges[s].contains(key)) continue;
            searches.all[s].candidates[add_shared(&shared.next[s], 1)] = static_cast<unsigned>(at + v);
          }
        }
      });
    });
  }

 private:
  /// The first block stores the search's start.
  PERISCOPE_HOST_DEVICE KeyRange<T> range_of(const Block& block, DigitShared& shared, Index b,
                                             const Search<T>& search) const {
    const RankedDigit first = find_digit(block, shared, counts, search.rank);
    block.threads([&](int t) {
      if (t == 0 && b == 0) search.found[0] = Found{0, 0, search.one_digit ? first.rank : search.rank};
    });
    const auto shift = static_cast<unsigned>(DigitPlace(key_bits<T>, 0).shift);
    const auto low = static_cast<Key<T>>(Key<T>{static_cast<Key<T>>(first.digit)} << shift);
    constexpr auto largest = static_cast<Key<T>>(~Key<T>{0});
    return {low, static_cast<Key<T>>(search.one_digit ? (Key<T>{1} << shift) - 1 : largest - low)};
  }
};

/// Computes the squared sums of the unit rows of a sequence, summed over 256 columns.
struct SquareUnitSums {
  using Shared = SumShared;
  In<double> unit_sums;  ///< [sequences · pieces, n]
  Index sequences, pieces, n;
  Out<double> squares;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    const Index left = sequences * n - b * Block::size;
    const double total = block.sum(shared.sums, left < Block::size ? left : Block::size, [&](Index i) {
      const Index column = b * Block::size + i;
      double sum = 0.0;
      for (Index piece = 0; piece < pieces; ++piece) {
        sum += unit_sums[(column / n * pieces + piece) * n + column % n];
      }
      return sum * sum;
    });
    block.threads([&](int t) {
      if (t == 0) squares[b] = total;
    });
  }
};

/// Computes the mean cosine from the squared sums of the unit rows, summed over all sequences.
struct MeanCosine {
  using Shared = SumShared;
  In<double> squares;
  Index count;
  Index sequences, tokens;
  Out<double> out;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const double all_squares = block.sum(shared.sums, count, [&](Index i) { return squares[i]; });
    block.threads([&](int t) {
      if (t != 0) return;
      const auto own = static_cast<double>(tokens);
      const auto all = static_cast<double>(sequences);
      out[0] = tokens < 2 ? std::sqrt(-1.0) : (all_squares - all * own) / (all * own * (own - 1.0));
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
