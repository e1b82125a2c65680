#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/// Philox on several counters at once, one per 64-bit lane of the widest vector that the target supports. The 32×32-bit
/// product needs an intrinsic: for a multiplication by a constant, compilers emit a dozen shifts and additions instead.
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
  /// Returns the lanes first, first + 1, …
  static type from(std::uint64_t first) {
#if defined(__AVX512F__)
    return type{0, 1, 2, 3, 4, 5, 6, 7} + first;
#else
    return type{0, 1, 2, 3} + first;
#endif
  }
  /// Interleaves the lanes of a and b; `lower` returns the first half of the result, `upper` the second.
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
