#include "sim/base/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#endif

// This file and processor_check.cpp are compiled for the baseline of the architecture. They must not call inline
// functions or templates of the standard library: the linker might choose copies compiled with AVX2 in another file.
namespace periscope {

#if defined(__x86_64__)
namespace {

struct Registers {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

/// Returns the CPUID registers of a leaf; zeros if the processor does not support the leaf.
Registers cpuid(std::uint32_t leaf) {
  Registers r;
  __get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d);
  return r;
}

/// Returns XCR0: the register sets that the operating system saves.
std::uint32_t saved_registers() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool has(std::uint32_t word, std::uint32_t bits) { return (word & bits) == bits; }

}  // namespace

int processor_level() noexcept {
  constexpr std::uint32_t long_mode_lahf = 1U << 0U, lzcnt = 1U << 5U;   // in ECX of leaf 0x80000001
  constexpr std::uint32_t vectors = 0x6, masks_and_wide_vectors = 0xe6;  // in XCR0
  constexpr std::uint32_t level3_leaf7 = bit_AVX2 | bit_BMI | bit_BMI2;  // in EBX of leaf 7
  constexpr std::uint32_t level4_leaf7 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
  const std::uint32_t basic = cpuid(1).c;
  const std::uint32_t extended = cpuid(0x80000001).c;
  const std::uint32_t structured = cpuid(7).b;
  if (!has(basic, bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B) ||
      !has(extended, long_mode_lahf)) {
    return 1;
  }
  if (!has(basic, bit_AVX | bit_F16C | bit_FMA | bit_MOVBE | bit_OSXSAVE) || !has(structured, level3_leaf7) ||
      !has(extended, lzcnt) || !has(saved_registers(), vectors)) {
    return 2;
  }
  return has(structured, level4_leaf7) && has(saved_registers(), masks_and_wide_vectors) ? 4 : 3;
}

#else

int processor_level() noexcept { return 0; }

#endif

}  // namespace periscope
