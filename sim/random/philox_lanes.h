#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/// Several counters of Philox at a time, one in each 64-bit lane of a vector of the width for which the compiler was
/// called. Compilers know the product of two low halves as one instruction only by its intrinsic: for a product with a
/// constant they write a dozen shifts and sums.
namespace periscope {

#if defined(__AVX2__)
#define PERISCOPE_PHILOX_LANES

struct PhiloxLanes {
#if defined(__AVX512F__)
  static constexpr int count = 8;
#else
  static constexpr int count = 4;
#endif
  typedef std::uint64_t type __attribute__((vector_size(count * 8)));

  static type times(type a, std::uint32_t b) {
    const type factor = type{} + b;
#if defined(__AVX512F__)
    return reinterpret_cast<type>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(factor)));
#else
    return reinterpret_cast<type>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(factor)));
#endif
  }
  /// first, first + 1, …
  static type from(std::uint64_t first) {
#if defined(__AVX512F__)
    return type{0, 1, 2, 3, 4, 5, 6, 7} + first;
#else
    return type{0, 1, 2, 3} + first;
#endif
  }
  /// a's and b's lanes in turn: the first half of them, and the other.
  static type lower(type a, type b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
  }
  static type upper(type a, type b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
  }
};

#endif

}  // namespace periscope
