#pragma once

#include <array>
#include <string_view>

namespace periscope {

/// A floating-point format in which activations are stored, and the largest finite number that it holds.
struct NumberFormat {
  std::string_view name;
  double largest;
};

/// IEEE binary32 and binary16, bfloat16 (the upper half of binary32), and the two 8-bit formats of the OCP
/// specification (E4M3 without infinities).
inline constexpr std::array<NumberFormat, 5> number_formats{
    NumberFormat{"fp32", 0x1.fffffep127}, NumberFormat{"bf16", 0x1.fep127}, NumberFormat{"fp16", 65504.0},
    NumberFormat{"fp8_e5m2", 57344.0}, NumberFormat{"fp8_e4m3", 448.0}};

}  // namespace periscope
