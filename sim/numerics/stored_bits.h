#pragma once

#include <bit>
#include <cstdint>
#include <limits>

/// The meaning of the bits of the formats that are narrower than a float. Every value is a float.
namespace periscope {

/// A float from the bits of a smaller format with `mantissa` bits after the point and an exponent biased by `bias`:
/// the bits are moved to where a float has them, and a power of two, which is exact, puts the bias right. Numbers
/// below the smaller format's normal range arrive as such of float, where the same multiplication is right too.
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
    // Both are computed and one is chosen, without a branch, so that loops over many become vector instructions.
    const float number = widened<10, 15>(magnitude, false);
    const float huge =
        magnitude == infinity ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    const float value = magnitude < infinity ? number : huge;
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
