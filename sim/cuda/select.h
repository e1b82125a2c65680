#pragma once

#include "sim/cuda/digits.h"

/// Selects the elements of the largest magnitudes. A first pass over the signal bounds their first digit from below, a
/// second one (MeasureTile) collects candidates; then each round finds one more digit of the wanted rank among these.
/// Counts are integers, so the order of threads does not matter.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// What is known of the wanted element: the digits found so far of its key and its order, and its rank (from 1) among
/// candidates with these digits. Of two equal magnitudes the first in memory has the larger order.
struct Found {
  std::uint64_t key;
  std::uint64_t order;
  unsigned rank;
};

/// The search for the element of one rank.
template <class T>
struct Search {
  unsigned rank = 0;        ///< from 1; the largest magnitude has rank 1
  bool one_digit = false;   ///< candidates: all with the first digit of the wanted element; else also larger ones
  int order_bits = 0;       ///< bits of an order; 0 if elements of equal magnitude need not be told apart
  Out<unsigned> counts;     ///< zeros: number of candidates, then the numbers of candidates by digit, for every digit
  Out<unsigned> candidates; ///< indices of elements
  Out<Found> found;         ///< before every digit

  [[nodiscard]] PERISCOPE_HOST_DEVICE int key_digits() const { return digits_in(key_bits<T>); }
  [[nodiscard]] PERISCOPE_HOST_DEVICE int digits() const { return key_digits() + digits_in(order_bits); }
  [[nodiscard]] PERISCOPE_HOST_DEVICE Out<unsigned> counts_of(int d) const { return counts + 1 + d * bins; }
  [[nodiscard]] PERISCOPE_HOST_DEVICE std::uint64_t order_of(unsigned index) const {
    return (std::uint64_t{1} << static_cast<unsigned>(order_bits)) - 1 - index;
  }
  [[nodiscard]] PERISCOPE_HOST_DEVICE DigitPlace place(int d) const {
    return d < key_digits() ? DigitPlace(key_bits<T>, d) : DigitPlace(order_bits, d - key_digits());
  }

  /// What is known before digit d. The first block stores it.
  PERISCOPE_HOST_DEVICE Found before(const Block& block, DigitShared& shared, Index b, int d) const {
    if (d == 0) return found[0];
    Found f = found[d - 1];
    const RankedDigit digit = find_digit(block, shared, counts_of(d - 1), f.rank);
    const int shift = place(d - 1).shift;
    (d <= key_digits() ? f.key : f.order) |= std::uint64_t{digit.digit} << static_cast<unsigned>(shift);
    f.rank = digit.rank;
    block.threads([&](int t) {
      if (t == 0 && b == 0) found[d] = f;
    });
    return f;
  }
};

inline constexpr int most_searches = 3;

template <class T>
struct Searches {
  Search<T> all[most_searches];
  int count = 0;
};

/// Number of blocks that share the candidates of a search among them.
constexpr Index search_blocks(Index size) {
  constexpr Index most = 512;
  return blocks_for(size) < most ? blocks_for(size) : most;
}

/// Counts digit d of the candidates that agree with the digits found so far.
template <class T>
struct CountDigit {
  struct Shared {
    DigitShared digit;
    unsigned counts[bins];
  };
  In<T> x;
  Searches<T> searches;
  int d;
  Index blocks;  ///< per search
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index index) const {
    const Search<T>& search = searches.all[index / blocks];
    const Index b = index % blocks;
    if (d >= search.digits()) return;
    const unsigned size = search.counts[0];
    if (b * Block::size >= size) return;
    const Found f = search.before(block, shared.digit, b, d);
    const DigitPlace place = search.place(d);
    const bool by_key = d < search.key_digits();
    block.threads([&](int t) {
      for (int bin = t; bin < bins; bin += Block::size) shared.counts[bin] = 0;
    });
    block.threads([&](int t) {
      for (Index i = b * Block::size + t; i < size; i += blocks * Block::size) {
        const unsigned at = search.candidates[i];
        const std::uint64_t key = key_of(x[at]);
        const std::uint64_t order = search.order_of(at);
        if (by_key ? !place.same_before(key, f.key) : key != f.key || !place.same_before(order, f.order)) continue;
        add_shared(&shared.counts[place.digit_of(by_key ? key : order)], 1);
      }
    });
    block.threads([&](int t) {
      for (int bin = t; bin < bins; bin += Block::size) {
        if (shared.counts[bin] > 0) search.counts_of(d).add(bin, shared.counts[bin]);
      }
    });
  }
};

template <class T>
struct Chosen {
  Key<T> key;
  unsigned index;
};

/// Copies the candidates of the searched rank or larger to `chosen`, in any order; without orders only those with a
/// larger magnitude, since the others are equal.
template <class T>
struct Choose {
  using Shared = DigitShared;
  In<T> x;
  Search<T> search;
  Index blocks;
  Out<Chosen<T>> chosen;
  Out<unsigned> count;  ///< zero
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    const unsigned size = search.counts[0];
    if (b * Block::size >= size) return;
    const Found f = search.before(block, shared, b, search.digits());
    block.threads([&](int t) {
      for (Index i = b * Block::size + t; i < size; i += blocks * Block::size) {
        const unsigned at = search.candidates[i];
        const Key<T> key = key_of(x[at]);
        const bool with_equal = search.order_bits > 0 && key == f.key && search.order_of(at) >= f.order;
        if (key > f.key || with_equal) chosen[count.add(0, 1)] = {key, at};
      }
    });
  }
};

/// Ranks the chosen elements in descending order, ties by index. Writes the magnitudes of the first `magnitude_count`
/// elements, and row, column and value of the first `entry_count`. Each thread ranks one element.
template <class T>
struct WriteLargest {
  In<T> x;
  In<Chosen<T>> chosen;
  In<unsigned> chosen_count;
  In<Found> last;  ///< the element of the lowest rank
  Index cols;
  Index magnitude_count;
  Out<double> magnitudes;
  Index entry_count;
  Out<double> entries;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const unsigned count = chosen_count[0];
    if (i >= count) {
      if (i < magnitude_count) magnitudes[i] = magnitude_of<T>(static_cast<Key<T>>(last[0].key));
      return;
    }
    const Chosen<T> own = chosen[i];
    Index rank = 0;
    for (Index j = 0; j < count; ++j) {
      const Chosen<T> other = chosen[j];
      if (other.key > own.key || (other.key == own.key && other.index < own.index)) ++rank;
    }
    if (rank < magnitude_count) magnitudes[rank] = magnitude_of<T>(own.key);
    if (rank >= entry_count) return;
    const Index row = own.index / cols;
    entries[3 * rank] = static_cast<double>(row);
    entries[3 * rank + 1] = static_cast<double>(own.index - row * cols);
    entries[3 * rank + 2] = static_cast<double>(widen(x[own.index]));
  }
};

/// Writes the median: the mean of the two middle magnitudes, which coincide for an odd number of elements.
template <class T>
struct WriteMedian {
  using Shared = DigitShared;
  Search<T> upper;
  Search<T> lower;
  Out<double> out;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    const auto value = [&](const Search<T>& s) {
      return magnitude_of<T>(static_cast<Key<T>>(s.before(block, shared, 0, s.digits()).key));
    };
    const double sum = value(upper) + value(lower);
    block.threads([&](int t) {
      if (t == 0) out[0] = sum / 2.0;
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
