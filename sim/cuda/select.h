#pragma once

#include <bit>

#include "sim/cuda/moments.h"

/// Selects the k largest magnitudes of a tensor by radix selection: four or eight counting passes find the k-th largest
/// digit by digit; a last pass collects the larger ones. Counts are integers, so the order of threads does not matter.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The bits of |x| in Computed<T> as an unsigned integer, which has the same order as |x|. NaN counts as infinite.
template <class T>
using OrderedBits = std::conditional_t<std::is_same_v<T, double>, std::uint64_t, std::uint32_t>;

template <class T>
PERISCOPE_HOST_DEVICE OrderedBits<T> ordered_bits(T x) {
  const auto magnitude = static_cast<Computed<T>>(ordered_magnitude(static_cast<double>(widen(x))));
  return std::bit_cast<OrderedBits<T>>(magnitude);
}

/// Number of elements that one block processes.
inline constexpr Index chunk_elements = 8192;
inline constexpr int digit_bits = 8;
inline constexpr int digits = 1 << digit_bits;

/// The state of the search for the k-th largest magnitude.
template <class Bits>
struct Search {
  Bits prefix;      ///< the digits found so far; lower digits are 0
  Index remaining;  ///< rank (from 1) of the wanted magnitude among magnitudes with this prefix
};

PERISCOPE_HOST_DEVICE inline void count_one(int* counter) {
#ifdef __CUDA_ARCH__
  atomicAdd(counter, 1);
#else
  ++*counter;
#endif
}

/// counts[chunk, digit] = number of elements of the chunk with the prefix found so far, followed by this digit.
template <class T>
struct CountDigits {
  struct Shared {
    int counts[digits];
  };
  const T* x;
  Index size;
  int shift;
  const Search<OrderedBits<T>>* search;
  int* counts;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index chunk) const {
    static_assert(digits == Block::size);
    using Bits = OrderedBits<T>;
    const Index first = chunk * chunk_elements;
    const Index end = first + chunk_elements < size ? first + chunk_elements : size;
    const Bits known = shift + digit_bits >= static_cast<int>(8 * sizeof(Bits))
                           ? Bits(0)
                           : static_cast<Bits>(~Bits(0) << static_cast<unsigned>(shift + digit_bits));
    const Bits prefix = search->prefix;
    block.threads([&](int t) { shared.counts[t] = 0; });
    block.threads([&](int t) {
      for (Index i = first + t; i < end; i += Block::size) {
        const Bits bits = ordered_bits(x[i]);
        if ((bits & known) != prefix) continue;
        count_one(&shared.counts[(bits >> static_cast<unsigned>(shift)) & (digits - 1)]);
      }
    });
    block.threads([&](int t) { counts[chunk * digits + t] = shared.counts[t]; });
  }
};

/// Sums the counts of all chunks and determines the next digit.
template <class Bits>
struct FindDigit {
  struct Shared {
    Index counts[digits];
  };
  const int* counts;
  Index chunks;
  int shift;
  Search<Bits>* search;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index /*only*/) const {
    block.threads([&](int t) {
      Index count = 0;
      for (Index chunk = 0; chunk < chunks; ++chunk) count += counts[chunk * digits + t];
      shared.counts[t] = count;
    });
    block.threads([&](int t) {
      if (t != 0) return;
      Index remaining = search->remaining;
      int digit = digits - 1;
      for (; digit > 0 && shared.counts[digit] < remaining; --digit) remaining -= shared.counts[digit];
      search->prefix |= static_cast<Bits>(digit) << static_cast<unsigned>(shift);
      search->remaining = remaining;
    });
  }
};

template <class Bits>
struct BeginSearch {
  Search<Bits>* search;
  Index rank;
  PERISCOPE_HOST_DEVICE void operator()(Index /*only*/) const { *search = {Bits(0), rank}; }
};

/// Finds the rank-th largest magnitude of x (from 1). The result is in device memory: `prefix` holds its bits,
/// `remaining` the number of elements equal to it among the `rank` largest.
template <class T>
[[nodiscard]] std::shared_ptr<Search<OrderedBits<T>>> find_largest(const Execution& execution, const T* x, Index size,
                                                                   Index rank) {
  using Bits = OrderedBits<T>;
  const Index chunks = (size + chunk_elements - 1) / chunk_elements;
  const std::shared_ptr<Search<Bits>> search = execution.take_array<Search<Bits>>(1);
  const std::shared_ptr<int> counts = execution.take_array<int>(chunks * digits);
  for_each(execution, 1, BeginSearch<Bits>{search.get(), rank});
  for (int shift = 8 * static_cast<int>(sizeof(Bits)) - digit_bits; shift >= 0; shift -= digit_bits) {
    for_blocks(execution, chunks, CountDigits<T>{x, size, shift, search.get(), counts.get()});
    for_blocks(execution, 1, FindDigit<Bits>{counts.get(), chunks, shift, search.get()});
  }
  return search;
}

/// Number of magnitudes in a chunk that exceed the k-th largest magnitude, and number that equal it.
struct ChunkCount {
  Index larger;
  Index equal;
};

template <class T>
struct CountLargest {
  struct Shared {
    ChunkCount counts[Block::size];
  };
  const T* x;
  Index size;
  const Search<OrderedBits<T>>* search;
  ChunkCount* counts;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index chunk) const {
    const Index first = chunk * chunk_elements;
    const Index count = first + chunk_elements < size ? chunk_elements : size - first;
    const ChunkCount all = block.reduce(
        shared.counts, count, ChunkCount{0, 0},
        [&](ChunkCount& c, Index i) {
          const OrderedBits<T> bits = ordered_bits(x[first + i]);
          if (bits > search->prefix) ++c.larger;
          if (bits == search->prefix) ++c.equal;
        },
        [](ChunkCount& a, const ChunkCount& b) {
          a.larger += b.larger;
          a.equal += b.equal;
        });
    block.threads([&](int t) {
      if (t == 0) counts[chunk] = all;
    });
  }
};

/// Replaces the counts of each chunk by their sums over all earlier chunks (exclusive prefix sum).
struct CountBefore {
  ChunkCount* counts;
  Index chunks;
  PERISCOPE_HOST_DEVICE void operator()(Index /*only*/) const {
    ChunkCount before{0, 0};
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      const ChunkCount own = counts[chunk];
      counts[chunk] = before;
      before = {before.larger + own.larger, before.equal + own.equal};
    }
  }
};

/// Writes the indices of the k largest: first those larger than the k-th, then those equal to it, each in index order.
/// Each thread handles one chunk. Most chunks contain none of these and are skipped.
template <class T>
struct Collect {
  const T* x;
  Index size, k;
  const Search<OrderedBits<T>>* search;
  const ChunkCount* before;
  Index chunks;
  Index* indices;
  PERISCOPE_HOST_DEVICE void operator()(Index chunk) const {
    const Index larger = k - search->remaining;  // number of larger magnitudes in all chunks
    ChunkCount next = before[chunk];
    const bool last = chunk + 1 == chunks;
    const bool any_larger = last ? next.larger < larger : before[chunk + 1].larger > next.larger;
    const bool any_equal = next.equal < search->remaining && (last || before[chunk + 1].equal > next.equal);
    if (!any_larger && !any_equal) return;
    const Index first = chunk * chunk_elements;
    const Index end = first + chunk_elements < size ? first + chunk_elements : size;
    for (Index i = first; i < end; ++i) {
      const OrderedBits<T> bits = ordered_bits(x[i]);
      if (bits > search->prefix) indices[next.larger++] = i;
      if (bits == search->prefix && next.equal < search->remaining) indices[larger + next.equal++] = i;
    }
  }
};

/// Ranks the k largest elements in descending order, ties by index. Writes the magnitudes of the first
/// `magnitude_count`, and row, column and value of the first `entry_count`. Each thread ranks one element.
template <class T>
struct WriteLargest {
  const T* x;
  const Index* indices;
  Index k, cols;
  Index magnitude_count;
  double* magnitudes;
  Index entry_count;
  double* entries;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const Index index = indices[i];
    const OrderedBits<T> own = ordered_bits(x[index]);
    Index rank = 0;
    for (Index other = 0; other < k; ++other) {
      const OrderedBits<T> bits = ordered_bits(x[indices[other]]);
      if (bits > own || (bits == own && indices[other] < index)) ++rank;
    }
    const double value = static_cast<double>(widen(x[index]));
    if (rank < magnitude_count) magnitudes[rank] = ordered_magnitude(value);
    if (rank >= entry_count) return;
    const Index row = index / cols;
    entries[3 * rank] = static_cast<double>(row);
    entries[3 * rank + 1] = static_cast<double>(index - row * cols);
    entries[3 * rank + 2] = value;
  }
};

/// Writes the median: the mean of the two middle magnitudes, which coincide for an odd number of elements.
template <class T>
struct WriteMedian {
  const Search<OrderedBits<T>>* upper;
  const Search<OrderedBits<T>>* lower;
  double* out;
  PERISCOPE_HOST_DEVICE void operator()(Index /*only*/) const {
    const auto value = [](OrderedBits<T> bits) { return static_cast<double>(std::bit_cast<Computed<T>>(bits)); };
    *out = (value(upper->prefix) + value(lower->prefix)) / 2.0;
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
