#pragma once

#include "sim/cuda/digits.h"

/// Finds elements by rank. Each round counts one more digit of the orders of those elements that share the digits found
/// so far. Counts are integers, so the order of threads does not matter.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The digits found of the wanted order, and its rank (from 1) among the elements with these digits.
template <class T>
struct Found {
  Order<T> prefix;
  unsigned rank;
};

template <class T>
struct Search {
  In<T> x;
  unsigned size;         ///< elements of x
  unsigned rank;         ///< of the wanted element, from 1
  int digits;            ///< to find
  Out<unsigned> counts;  ///< zeros: [digits, bins], then the number of candidates
  unsigned* candidates;  ///< indices of the elements to search; null: all
  Out<Found<T>> found;   ///< before every digit and at the end [digits + 1]

  [[nodiscard]] PERISCOPE_HOST_DEVICE unsigned candidate_count() const {
    return candidates == nullptr ? size : In<unsigned>(counts)[digits * bins];
  }
  /// Calls use(order) for every candidate of thread t of block b of `blocks`.
  template <class Use>
  PERISCOPE_HOST_DEVICE void for_candidates(int t, Index b, Index blocks, const Use& use) const {
    const Index count = candidate_count();
    for (Index i = b * Block::size + t; i < count; i += blocks * Block::size) {
      const Index index = candidates == nullptr ? i : In<unsigned>(candidates)[i];
      use(order_of<T>(without_nan<T>(key_of(x[index])), index));
    }
  }
  /// What is known before digit d. The first block stores it.
  PERISCOPE_HOST_DEVICE Found<T> before(int d, const Block& block, DigitShared& shared, Index b) const {
    Found<T> f{0, rank};
    if (d > 0) {
      if (d > 1) f = In<Found<T>>(found)[d - 1];
      const RankedDigit digit = find_digit(block, shared, In<unsigned>(counts + (d - 1) * bins), f.rank);
      f.prefix |= Order<T>{digit.digit} << Digit<T>(d - 1).shift;
      f.rank = digit.rank;
    }
    block.threads([&](int t) {
      if (t == 0 && b == 0) found[d] = f;
    });
    return f;
  }
};

template <class T>
struct CountDigit {
  struct Shared {
    DigitShared digit;
    unsigned counts[bins];
  };
  Search<T> search;
  int d;
  Index blocks;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    if (b * Block::size >= search.candidate_count()) return;
    const Found<T> f = search.before(d, block, shared.digit, b);
    const Digit<T> digit(d);
    block.threads([&](int t) {
      for (int bin = t; bin < bins; bin += Block::size) shared.counts[bin] = 0;
    });
    block.threads([&](int t) {
      search.for_candidates(t, b, blocks, [&](Order<T> order) {
        if ((order ^ f.prefix) >> digit.known == 0) add_to(shared.counts[digit.of(order)], 1);
      });
    });
    block.threads([&](int t) {
      for (int bin = t; bin < bins; bin += Block::size) {
        if (shared.counts[bin] > 0) add_to(search.counts[d * bins + bin], shared.counts[bin]);
      }
    });
  }
};

template <class T>
Index blocks_of(const Search<T>& search) {
  return std::min<Index>(512, blocks_for(search.size));
}

/// Finds all digits of the search.
template <class T>
void find_digits(const Execution& execution, const Search<T>& search) {
  const Index blocks = blocks_of(search);
  for (int d = 0; d < search.digits; ++d) for_blocks(execution, blocks, CountDigit<T>{search, d, blocks});
}

/// Copies the orders of the candidates that exceed the digits found to `chosen`, without an order among them.
template <class T>
struct Choose {
  using Shared = DigitShared;
  Search<T> search;
  Index blocks;
  Out<Order<T>> chosen;
  Out<unsigned> count;  ///< zero
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    if (b * Block::size >= search.candidate_count()) return;
    const Found<T> f = search.before(search.digits, block, shared, b);
    const int shift = Digit<T>(search.digits - 1).shift;
    block.threads([&](int t) {
      search.for_candidates(t, b, blocks, [&](Order<T> order) {
        if (order >> shift > f.prefix >> shift) chosen[add_to(count[0], 1)] = order;
      });
    });
  }
};

/// Ranks the chosen elements; all others among the largest have the magnitude that was found. Writes the magnitudes of
/// the first `magnitude_count`, and row, column and value of the first `entry_count`. Each thread ranks one element.
template <class T>
struct WriteLargest {
  In<T> x;
  In<Order<T>> chosen;
  In<unsigned> count;
  In<Found<T>> last;
  Index cols;
  Index magnitude_count;
  Out<double> magnitudes;
  Index entry_count;
  Out<double> entries;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const unsigned size = count[0];
    const Order<T> own = i < size ? chosen[i] : last[0].prefix;
    Index rank = i < size ? 0 : i;
    for (Index j = 0; i < size && j < size; ++j) rank += chosen[j] > own ? 1 : 0;
    if (rank < magnitude_count) magnitudes[rank] = magnitude_of<T>(key_in<T>(own));
    if (rank >= entry_count) return;
    const Index index = index_in<T>(own);
    entries[3 * rank] = static_cast<double>(index / cols);
    entries[3 * rank + 1] = static_cast<double>(index % cols);
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
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index b) const {
    const double larger = magnitude_of<T>(key_in<T>(upper.before(upper.digits, block, shared, b).prefix));
    const double smaller = magnitude_of<T>(key_in<T>(lower.before(lower.digits, block, shared, b).prefix));
    block.threads([&](int t) {
      if (t == 0) out[0] = (larger + smaller) / 2.0;
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
