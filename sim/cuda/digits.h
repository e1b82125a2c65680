#pragma once

#include <bit>
#include <limits>

#include "sim/cuda/launch.h"

/// Magnitudes as integers, and the digits of the element of a given rank.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The bits of a magnitude, which have the same order as unsigned integers. NaN exceeds infinity.
template <class T>
using Key =
    std::conditional_t<sizeof(T) == 8, std::uint64_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

template <class T>
PERISCOPE_HOST_DEVICE Key<T> key_of(T x) {
  return static_cast<Key<T>>(std::bit_cast<Key<T>>(x) & std::numeric_limits<Key<T>>::max() >> 1U);
}

/// A selection ranks NaN and infinity as equal.
template <class T>
PERISCOPE_HOST_DEVICE Key<T> without_nan(Key<T> key) {
  constexpr auto infinite = std::bit_cast<Key<T>>(infinity<T>);
  return key < infinite ? key : infinite;
}

template <class T>
PERISCOPE_HOST_DEVICE double magnitude_of(Key<T> key) {
  return static_cast<double>(widen(std::bit_cast<T>(key)));
}

/// Orders all elements of a signal: by magnitude, ties by index, so that the largest order has rank 1.
__extension__ typedef unsigned __int128 Wide;
template <class T>
using Order = std::conditional_t<sizeof(T) == 8, Wide, std::uint64_t>;
inline constexpr int index_bits = 32;

template <class T>
PERISCOPE_HOST_DEVICE Order<T> order_of(Key<T> key, Index index) {
  return Order<T>{key} << index_bits | ~static_cast<std::uint32_t>(index);
}
template <class T>
PERISCOPE_HOST_DEVICE Key<T> key_in(Order<T> order) {
  return static_cast<Key<T>>(order >> index_bits);
}
template <class T>
PERISCOPE_HOST_DEVICE Index index_in(Order<T> order) {
  return static_cast<Index>(~static_cast<std::uint32_t>(order));
}

inline constexpr int digit_bits = 11;
inline constexpr int bins = 1 << digit_bits;  ///< values of a digit
constexpr int digits_in(int bits) { return (bits + digit_bits - 1) / digit_bits; }
template <class T>
inline constexpr int key_bits = 8 * static_cast<int>(sizeof(T)) - 1;

/// Digit d of an order, from the most significant one. The last digit may overlap the one before.
template <class T>
struct Digit {
  int known;  ///< number of bits below all earlier digits
  int shift;
  PERISCOPE_HOST_DEVICE explicit Digit(int d)
      : known(key_bits<T> + index_bits - d * digit_bits), shift(known > digit_bits ? known - digit_bits : 0) {}
  PERISCOPE_HOST_DEVICE unsigned of(Order<T> order) const { return static_cast<unsigned>(order >> shift) & (bins - 1); }
};

/// The first digit of every order with this key.
template <class T>
PERISCOPE_HOST_DEVICE unsigned first_digit(Key<T> key) {
  return static_cast<unsigned>(key >> (key_bits<T> - digit_bits));
}

struct RankedDigit {
  unsigned digit;
  unsigned rank;  ///< from 1, among the elements with this digit
};

struct DigitShared {
  unsigned sums[2][Block::size];
  RankedDigit found;
};

/// The digit of the element of rank `rank`, given the number of elements with each digit; {0, rank} if there are fewer.
PERISCOPE_HOST_DEVICE inline RankedDigit find_digit(const Block& block, DigitShared& shared, const In<unsigned>& counts,
                                                    unsigned rank) {
  constexpr int own = bins / Block::size;
  block.threads([&](int t) {
    unsigned sum = 0;
    for (int i = 0; i < own; ++i) sum += counts[own * t + i];
    shared.sums[0][t] = sum;
    if (t == 0) shared.found = {0, rank};
  });
  int from = 0;
  for (int step = 1; step < Block::size; step *= 2) {  // sums over threads t, t + 1, …
    block.threads([&](int t) {
      shared.sums[1 - from][t] = shared.sums[from][t] + (t + step < Block::size ? shared.sums[from][t + step] : 0);
    });
    from = 1 - from;
  }
  block.threads([&](int t) {
    unsigned above = t + 1 < Block::size ? shared.sums[from][t + 1] : 0;
    if (above >= rank || shared.sums[from][t] < rank) return;
    int digit = own * t + own - 1;
    for (; above + counts[digit] < rank; --digit) above += counts[digit];
    shared.found = {static_cast<unsigned>(digit), rank - above};
  });
  const RankedDigit found = shared.found;
  block.threads([](int) {});  // all threads must read the result before `shared` is reused
  return found;
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
