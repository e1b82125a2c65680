#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "sim/cuda/launch.h"

/// Magnitudes as integers, and the search for the element of a given rank digit by digit.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Bits of a magnitude |x| as an unsigned integer, which has the same order. NaN exceeds infinity.
template <class T>
using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                               std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

template <class T>
inline constexpr int key_bits = 8 * static_cast<int>(sizeof(T)) - 1;

template <class T>
PERISCOPE_HOST_DEVICE Key<T> bits_of_magnitude(T x) {
  return static_cast<Key<T>>(std::bit_cast<Key<T>>(x) & std::numeric_limits<Key<T>>::max() >> 1U);
}

/// NaN becomes infinite: a selection ranks both as equal.
template <class T>
PERISCOPE_HOST_DEVICE Key<T> without_nan(Key<T> bits) {
  constexpr Key<T> infinite = [] {
    if constexpr (std::is_floating_point_v<T>) {
      return std::bit_cast<Key<T>>(std::numeric_limits<T>::infinity());
    } else {
      return T::infinite;
    }
  }();
  return bits < infinite ? bits : infinite;
}

template <class T>
PERISCOPE_HOST_DEVICE Key<T> key_of(T x) {
  return without_nan<T>(bits_of_magnitude(x));
}

template <class T>
PERISCOPE_HOST_DEVICE double magnitude_of(Key<T> key) {
  return static_cast<double>(widen(std::bit_cast<T>(key)));
}

inline constexpr int digit_bits = 11;
inline constexpr int bins = 1 << digit_bits;  ///< values of a digit

/// Digit d of numbers of `bits` bits, from the most significant one. The last digit may overlap the previous one.
struct DigitPlace {
  int known;  ///< number of bits below all earlier digits
  int shift;
  PERISCOPE_HOST_DEVICE DigitPlace(int bits, int d)
      : known(bits - d * digit_bits), shift(known > digit_bits ? known - digit_bits : 0) {}
  PERISCOPE_HOST_DEVICE unsigned digit_of(std::uint64_t number) const {
    return static_cast<unsigned>(number >> static_cast<unsigned>(shift)) & (bins - 1);
  }
  PERISCOPE_HOST_DEVICE bool same_before(std::uint64_t a, std::uint64_t b) const {
    return (a ^ b) >> static_cast<unsigned>(known) == 0;
  }
};

constexpr int digits_in(int bits) { return (bits + digit_bits - 1) / digit_bits; }

template <class T>
PERISCOPE_HOST_DEVICE unsigned first_digit(Key<T> key) {
  return DigitPlace(key_bits<T>, 0).digit_of(key);
}

/// Adds to a number in shared memory and returns its previous value.
PERISCOPE_HOST_DEVICE inline unsigned add_shared(unsigned* number, unsigned n) {
#ifdef __CUDA_ARCH__
  return atomicAdd(number, n);
#else
  return (*number += n) - n;
#endif
}

/// A digit, and the rank (from 1) among the elements that have it.
struct RankedDigit {
  unsigned digit;
  unsigned rank;
};

struct DigitShared {
  unsigned sums[2][Block::size];
  RankedDigit found;
};

/// The digit of the element of rank `rank` (from 1, the largest first), given the number of elements per digit. It is
/// 0 with the rank unchanged if there are fewer elements.
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
  for (int step = 1; step < Block::size; step *= 2) {  // sums over all threads t, t + 1, …
    block.threads([&](int t) {
      shared.sums[1 - from][t] = shared.sums[from][t] + (t + step < Block::size ? shared.sums[from][t + step] : 0);
    });
    from = 1 - from;
  }
  block.threads([&](int t) {
    unsigned above = t + 1 < Block::size ? shared.sums[from][t + 1] : 0;
    if (above >= rank || shared.sums[from][t] < rank) return;
    for (int i = own - 1; i >= 0; --i) {
      const unsigned count = counts[own * t + i];
      if (above + count >= rank) {
        shared.found = {static_cast<unsigned>(own * t + i), rank - above};
        return;
      }
      above += count;
    }
  });
  const RankedDigit found = shared.found;
  block.threads([](int) {});  // all threads must read the result before `shared` is reused
  return found;
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
