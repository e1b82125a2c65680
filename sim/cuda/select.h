#pragma once

#include "sim/cuda/digits.h"

/// Radix selection: finds elements by rank. Every round counts one more digit of the sort keys that share the digits
/// found so far. Counts are integers, so the order of threads does not matter.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The digits found of the wanted sort key, and its rank (from 1) among the elements with these digits.
template <class T>
struct Found {
  SortKey<T> prefix;
  unsigned rank;
};

template <class T>
struct Search {
  In<T> x;
  unsigned size;                  ///< elements of x
  unsigned rank;                  ///< of the wanted element, from 1
  int digits;                     ///< to find
  Out<unsigned> counts;           ///< zeros [digits, bins]
  In<unsigned> candidates;        ///< indices of the elements to search; null: all
  In<unsigned> candidate_number;  ///< not read without candidates

  [[nodiscard]] PERISCOPE_HOST_DEVICE Index blocks() const {
    const Index all = ceil_div(size, Block::size);
    return all < 512 ? all : 512;  // not many more than a GPU runs at a time
  }
  [[nodiscard]] PERISCOPE_HOST_DEVICE bool is_idle(Index b) const { return b * Block::size >= count(); }
  /// Calls use(sort key) for every candidate of thread t of block b.
  template <class Use>
  PERISCOPE_HOST_DEVICE void for_candidates(int t, Index b, const Use& use) const {
    const Index end = count();
    for (Index i = b * Block::size + t; i < end; i += blocks() * Block::size) {
      const Index index = candidates ? candidates[i] : i;
      use(sort_key<T>(without_nan<T>(magnitude_bits(x[index])), index));
    }
  }
  /// Returns the first d digits, which are counted.
  PERISCOPE_HOST_DEVICE Found<T> found(int d, const Block& block, DigitShared& shared) const {
    Found<T> f{0, rank};
    for (int e = 0; e < d; ++e) {
      const RankedDigit digit = find_digit(block, shared, In<unsigned>(counts + Index{e} * bins), f.rank);
      f.prefix |= SortKey<T>{digit.digit} << Digit<T>(e).shift;
      f.rank = digit.rank;
    }
    return f;
  }

 private:
  [[nodiscard]] PERISCOPE_HOST_DEVICE Index count() const { return candidates ? candidate_number[0] : size; }
};

template <class T>
struct CountDigit {
  struct Shared {
    DigitShared digit;
    unsigned counts[bins];
  };
  Search<T> search;
  int d;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    if (search.is_idle(b)) return;
    const Found<T> f = search.found(d, block, shared.digit);
    const Digit<T> digit(d);
    block.threads([&](int t) {
      for (int bin = t; bin < bins; bin += Block::size) shared.counts[bin] = 0;
    });
    block.threads([&](int t) {
      search.for_candidates(t, b, [&](SortKey<T> key) {
        if ((key ^ f.prefix) >> digit.below == 0) atomic_add(shared.counts[digit.of(key)], 1);
      });
    });
    block.threads([&](int t) {
      for (int bin = t; bin < bins; bin += Block::size) {
        if (shared.counts[bin] > 0) atomic_add(search.counts[Index{d} * bins + bin], shared.counts[bin]);
      }
    });
  }
};

/// Finds all digits of the search.
template <class T>
void find_digits(const Execution& execution, const Search<T>& search) {
  for (int d = 0; d < search.digits; ++d) for_blocks(execution, search.blocks(), CountDigit<T>{search, d});
}

/// Appends the sort keys of all candidates above the digits found to `chosen`, in any order; these digits become its
/// last entry.
template <class T>
struct Choose {
  using Shared = DigitShared;
  Search<T> search;
  Out<SortKey<T>> chosen;  ///< [rank + 1]
  Out<unsigned> count;     ///< zero
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    if (search.is_idle(b)) return;
    const Found<T> f = search.found(search.digits, block, shared);
    const int shift = Digit<T>(search.digits - 1).shift;
    block.threads([&](int t) {
      if (t == 0 && b == 0) chosen[search.rank] = f.prefix;
      search.for_candidates(t, b, [&](SortKey<T> key) {
        if (key >> shift > f.prefix >> shift) chosen[atomic_add(count[0], 1)] = key;
      });
    });
  }
};

/// Ranks the chosen elements; the remaining ones of the `total` largest have the magnitude in the last entry of
/// `chosen`. With entries, it is a complete sort key, so that a single element remains. Writes the magnitudes of the
/// first `magnitude_count` elements, and row, column and value of the first `entry_count`. Each thread ranks one
/// element.
template <class T>
struct WriteLargest {
  In<T> x;
  In<SortKey<T>> chosen;
  In<unsigned> count;
  Index total, cols;
  Index magnitude_count;
  Out<double> magnitudes;
  Index entry_count;
  Out<double> entries;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const unsigned size = count[0];
    const SortKey<T> own = chosen[i < size ? i : total];
    Index rank = i < size ? 0 : i;
    for (Index j = 0; i < size && j < size; ++j) rank += chosen[j] > own ? 1 : 0;
    if (rank < magnitude_count) magnitudes[rank] = magnitude_in<T>(own);
    if (rank >= entry_count) return;
    const Index index = index_in<T>(own);
    const Index row = index / cols;
    entries[3 * rank] = static_cast<double>(row);
    entries[3 * rank + 1] = static_cast<double>(index - row * cols);
    entries[3 * rank + 2] = static_cast<double>(widen(x[index]));
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
    const double larger = magnitude_in<T>(upper.found(upper.digits, block, shared).prefix);
    const double smaller = magnitude_in<T>(lower.found(lower.digits, block, shared).prefix);
    block.threads([&](int t) {
      if (t == 0) out[0] = (larger + smaller) / 2.0;
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
