#pragma once

#include <array>
#include <string_view>

namespace periscope {

/// A binary floating-point format in which signals are stored or summed: finite numbers are ±m·2^e with at most
/// `precision` bits of m.
struct NumberFormat {
  std::string_view name;
  double largest;      ///< largest finite number
  int precision;       ///< bits of the significand, the hidden one included
  int least_exponent;  ///< of the smallest normal number, 2^least_exponent

  /// u: rounding to nearest changes a number between smallest normal and largest by at most u times its size.
  [[nodiscard]] constexpr double unit_roundoff() const { return power_of_two(-precision); }
  /// η: rounding to nearest changes a number below the smallest normal by at most η/2.
  [[nodiscard]] constexpr double smallest_subnormal() const { return power_of_two(least_exponent - precision + 1); }

 private:
  static constexpr double power_of_two(int exponent) {
    double power = 1.0;
    for (; exponent > 0; --exponent) power *= 2.0;
    for (; exponent < 0; ++exponent) power /= 2.0;
    return power;
  }
};

/// IEEE binary64: what the simulator itself computes in by default where it certifies.
inline constexpr NumberFormat fp64{"fp64", 0x1.fffffffffffffp1023, 53, -1022};

/// The formats that runs are judged for: IEEE binary32 and binary16, bfloat16 (the upper half of binary32), and the two
/// 8-bit formats of the OCP specification (E4M3 without infinities).
inline constexpr std::array<NumberFormat, 5> number_formats{
    NumberFormat{"fp32", 0x1.fffffep127, 24, -126}, NumberFormat{"bf16", 0x1.fep127, 8, -126},
    NumberFormat{"fp16", 65504.0, 11, -14}, NumberFormat{"fp8_e5m2", 57344.0, 3, -14},
    NumberFormat{"fp8_e4m3", 448.0, 4, -6}};

}  // namespace periscope
