#pragma once

#include <bit>
#include <cstdint>
#include <limits>

/// Decoders of formats narrower than a float. A float represents every value exactly.
namespace periscope {

/// Converts the bits of a narrower format with `mantissa` fraction bits and exponent bias `bias` to a float. The bits
/// are shifted to the float layout; an exact multiplication by a power of two corrects the bias. Subnormals become
/// float subnormals, for which the same multiplication is correct.
template <int mantissa, int bias>
constexpr float widened(std::uint32_t magnitude, bool negative) {
  constexpr int mantissa_of_float = 23;
  constexpr int bias_of_float = 127;
  constexpr auto scale =
      std::bit_cast<float>(static_cast<std::uint32_t>(2 * bias_of_float - bias) << mantissa_of_float);
  const float value = std::bit_cast<float>(magnitude << (mantissa_of_float - mantissa)) * scale;
  return negative ? -value : value;
}

struct F16 {
  using Stored = std::uint16_t;
  static constexpr float decode(Stored bits) {
    constexpr std::uint32_t infinity = 0x7c00;
    const std::uint32_t magnitude = bits & 0x7fffU;
    // Selects between the two values without a branch, so that loops are vectorised.
    const float number = widened<10, 15>(magnitude, false);
    const float non_finite =
        magnitude == infinity ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    const float value = magnitude < infinity ? number : non_finite;
    return (bits & 0x8000U) != 0 ? -value : value;
  }
};

struct Bf16 {
  using Stored = std::uint16_t;
  static constexpr float decode(Stored bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

struct F8E5m2 {  // the upper half of an F16
  using Stored = std::uint8_t;
  static constexpr float decode(Stored bits) { return F16::decode(static_cast<std::uint16_t>(bits << 8)); }
};

struct F8E4m3 {
  using Stored = std::uint8_t;
  static constexpr float decode(Stored bits) {
    const std::uint32_t magnitude = bits & 0x7fU;
    const float number = widened<3, 7>(magnitude, false);
    const float value = magnitude == 0x7f ? std::numeric_limits<float>::quiet_NaN() : number;
    return (bits & 0x80U) != 0 ? -value : value;
  }
};

}  // namespace periscope
