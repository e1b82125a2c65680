#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sim/cuda/launch.h"

/// Sort keys of elements and their digits, for radix selection (select.h).
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The bits of |x|. As unsigned integers they are ordered like |x|, with NaN above infinity.
template <class T>
using MagnitudeBits =
    std::conditional_t<sizeof(T) == 8, std::uint64_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

template <class T>
PERISCOPE_HOST_DEVICE MagnitudeBits<T> magnitude_bits(T x) {
  using Bits = MagnitudeBits<T>;
  return static_cast<Bits>(std::bit_cast<Bits>(x) & std::numeric_limits<Bits>::max() >> 1U);
}

/// Replaces NaN by infinity, since selections count NaN as infinite.
template <class T>
PERISCOPE_HOST_DEVICE MagnitudeBits<T> without_nan(MagnitudeBits<T> bits) {
  constexpr std::uint64_t of_16_bits = std::is_same_v<T, Half> ? 0x7c00 : 0x7f80;
  constexpr std::uint64_t of_all = sizeof(T) == 8 ? 0x7ff0000000000000 : sizeof(T) == 4 ? 0x7f800000 : of_16_bits;
  constexpr auto infinite = static_cast<MagnitudeBits<T>>(of_all);
  return bits < infinite ? bits : infinite;
}

template <class T>
PERISCOPE_HOST_DEVICE double magnitude_of(MagnitudeBits<T> bits) {
  return static_cast<double>(widen(std::bit_cast<T>(bits)));
}

/// Sort key of an element: the bits of its magnitude, then its inverted index, so that ties are ranked by index. The
/// largest sort key has rank 1.
__extension__ typedef unsigned __int128 Wide;
template <class T>
using SortKey = std::conditional_t<sizeof(T) == 8, Wide, std::uint64_t>;
inline constexpr int index_bits = 32;

template <class T>
PERISCOPE_HOST_DEVICE SortKey<T> sort_key(MagnitudeBits<T> bits, Index index) {
  return SortKey<T>{bits} << index_bits | ~static_cast<std::uint32_t>(index);
}
template <class T>
PERISCOPE_HOST_DEVICE double magnitude_in(SortKey<T> key) {
  return magnitude_of<T>(static_cast<MagnitudeBits<T>>(key >> index_bits));
}
template <class T>
PERISCOPE_HOST_DEVICE Index index_in(SortKey<T> key) {
  return static_cast<Index>(~static_cast<std::uint32_t>(key));
}

inline constexpr int digit_bits = 11;
inline constexpr int bins = 1 << digit_bits;  ///< values of a digit
constexpr int digits_in(int bits) { return static_cast<int>(ceil_div(bits, digit_bits)); }
template <class T>
inline constexpr int bits_of_magnitude = 8 * static_cast<int>(sizeof(T)) - 1;

/// Digit d of a sort key, from the most significant one. The last digit may overlap the one before.
template <class T>
struct Digit {
  int below;  ///< number of bits below all earlier digits
  int shift;
  PERISCOPE_HOST_DEVICE explicit Digit(int d)
      : below(bits_of_magnitude<T> + index_bits - d * digit_bits), shift(below > digit_bits ? below - digit_bits : 0) {}
  PERISCOPE_HOST_DEVICE unsigned of(SortKey<T> key) const { return static_cast<unsigned>(key >> shift) & (bins - 1); }
};

struct RankedDigit {
  unsigned digit;
  unsigned rank;  ///< from 1, among the elements with this digit
};

struct DigitShared {
  unsigned sums[2][Block::size];
  RankedDigit found;
};

/// Returns the digit of the element of rank `rank` and its rank among the elements with this digit, given the histogram
/// `counts` [bins]. Returns {0, rank} if there are fewer elements.
PERISCOPE_HOST_DEVICE inline RankedDigit find_digit(const Block& block, DigitShared& shared, const In<unsigned>& counts,
                                                    unsigned rank) {
  constexpr int bins_per_thread = bins / Block::size;
  block.threads([&](int t) {
    unsigned sum = 0;
    for (int i = 0; i < bins_per_thread; ++i) sum += counts[bins_per_thread * t + i];
    shared.sums[0][t] = sum;
    if (t == 0) shared.found = {0, rank};
  });
  int from = 0;
  for (int step = 1; step < Block::size; step *= 2) {  // suffix sums
    block.threads([&](int t) {
      shared.sums[1 - from][t] = shared.sums[from][t] + (t + step < Block::size ? shared.sums[from][t + step] : 0);
    });
    from = 1 - from;
  }
  block.threads([&](int t) {
    unsigned above = t + 1 < Block::size ? shared.sums[from][t + 1] : 0;
    if (above >= rank || shared.sums[from][t] < rank) return;
    int digit = bins_per_thread * t + bins_per_thread - 1;
    for (; above + counts[digit] < rank; --digit) above += counts[digit];
    shared.found = {static_cast<unsigned>(digit), rank - above};
  });
  const RankedDigit found = shared.found;
  block.threads([](int) {});  // all threads must read the result before `shared` is reused
  return found;
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
