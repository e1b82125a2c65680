#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "sim/core/tensor.h"
#include "sim/cuda/host_device.h"
#include "sim/numerics/stored_bits.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/// The four element types and their conversions.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

using Index = Tensor::Index;

constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

/// bfloat16: the upper half of a float.
struct Bfloat16 {
  static constexpr DType dtype = DType::bf16;
  std::uint16_t bits;
};

/// IEEE binary16.
struct Half {
  static constexpr DType dtype = DType::f16;
  std::uint16_t bits;
};

/// The type in which ops on elements of type T compute (compute_dtype).
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

PERISCOPE_HOST_DEVICE inline double widen(double x) { return x; }
PERISCOPE_HOST_DEVICE inline float widen(float x) { return x; }
PERISCOPE_HOST_DEVICE inline float widen(Bfloat16 x) { return Bf16::decode(x.bits); }
PERISCOPE_HOST_DEVICE inline float widen(Half x) { return F16::decode(x.bits); }

/// Rounds to the nearest bfloat16, ties to even. NaN becomes NaN.
PERISCOPE_HOST_DEVICE inline Bfloat16 nearest_bfloat16(float x) {
#ifdef __CUDA_ARCH__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>((bits >> 16U) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U)};
#endif
}

/// Rounds to the nearest binary16, ties to even. Overflow becomes infinity, NaN becomes NaN.
PERISCOPE_HOST_DEVICE inline Half nearest_half(float x) {
#ifdef __CUDA_ARCH__
  return {__half_as_ushort(__float2half_rn(x))};
#else
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  constexpr std::uint32_t halfway_to_infinity = 0x477ff000;  // 65520
  constexpr std::uint32_t smallest_normal = 0x38800000;      // 2^-14
  if (magnitude >= halfway_to_infinity) {
    return {static_cast<std::uint16_t>(sign | (std::isnan(x) ? 0x7e00U : 0x7c00U))};
  }
  if (magnitude < smallest_normal) {
    // Floats in [1/2, 1) have the spacing of binary16 subnormals, so the sum rounds correctly.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000U))};
  }
  constexpr std::uint32_t bias_difference = (127U - 15U) << 23U;
  const std::uint32_t rounded = magnitude - bias_difference + 0xfffU + ((magnitude >> 13U) & 1U);
  return {static_cast<std::uint16_t>(sign | (rounded >> 13U))};
#endif
}

/// Rounds a computed number to the element type, to nearest.
template <class T>
PERISCOPE_HOST_DEVICE T narrow(Computed<T> x) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return nearest_bfloat16(x);
  } else if constexpr (std::is_same_v<T, Half>) {
    return nearest_half(x);
  } else {
    return x;
  }
}

/// Rounds to odd: returns x if a float represents it exactly, else the neighbouring float with an odd last bit (Boldo
/// and Melquiond 2008). Rounding the result to fewer bits rounds x correctly.
PERISCOPE_HOST_DEVICE inline float rounded_to_odd(double x) {
  const auto f = static_cast<float>(x);
  if (std::isnan(x) || static_cast<double>(f) == x) return f;
  auto bits = std::bit_cast<std::uint32_t>(f);
  if (std::abs(static_cast<double>(f)) > std::abs(x)) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1U);
}

/// Converts a double to T with a single rounding.
template <class T>
PERISCOPE_HOST_DEVICE T from_double(double x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(x);
  } else {
    return narrow<T>(rounded_to_odd(x));
  }
}

/// Calls body(T{}) for the element type T of the dtype.
template <class Body>
void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f64: return body(double{});
    case DType::f32: return body(float{});
    case DType::bf16: return body(Bfloat16{});
    case DType::f16: return body(Half{});
  }
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
