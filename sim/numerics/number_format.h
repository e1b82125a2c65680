#pragma once

#include <array>
#include <string_view>

#include "sim/base/enumerators.h"

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
  /// ε = 2u: from 1 to the next number.
  [[nodiscard]] constexpr double spacing_at_1() const { return power_of_two(1 - precision); }
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

/// IEEE binary64 and binary32, in which the simulator itself computes, and binary16.
inline constexpr NumberFormat fp64{"fp64", 0x1.fffffffffffffp1023, 53, -1022};
inline constexpr NumberFormat fp32{"fp32", 0x1.fffffep127, 24, -126};
inline constexpr NumberFormat fp16{"fp16", 65504.0, 11, -14};

/// The formats that runs are judged for: IEEE binary32 and binary16, bfloat16 (the upper half of binary32), and the two
/// 8-bit formats of the OCP specification (E4M3 without infinities).
inline constexpr std::array<NumberFormat, 5> number_formats{fp32, NumberFormat{"bf16", 0x1.fep127, 8, -126}, fp16,
                                                            NumberFormat{"fp8_e5m2", 57344.0, 3, -14},
                                                            NumberFormat{"fp8_e4m3", 448.0, 4, -6}};

/// γ_n = n·u/(1 − n·u): relative error of n roundings in a row, each of at most u (a unit round-off). A sum of n terms,
/// in any order, is within γ_n·Σ|terms| (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1 and §4.2).
[[nodiscard]] constexpr double rounding_bound(double n, double u) { return n * u / (1.0 - n * u); }

/// The arithmetic in which a stack runs (T24).
enum class Arithmetic {
  exact,  ///< real numbers, on the stored weights
  mixed,  ///< the result of every op is stored in the format; sums and norms accumulate in fp32, and so does softmax
  pure,   ///< all in the format: partial sums, x − mean and the squares in a norm too
};
inline constexpr std::array<std::string_view, 3> arithmetic_names{"exact", "mixed", "pure"};
static_assert(are_names_of<Arithmetic>(arithmetic_names));

/// An arithmetic and its formats: of what is stored, and of sums on their way.
struct RunArithmetic {
  Arithmetic kind = Arithmetic::exact;
  NumberFormat stored = fp64;
  NumberFormat accumulated = fp64;
};

/// `kind` with signals stored in `format`. Mixed arithmetic accumulates in fp32, or in the format if that is wider.
[[nodiscard]] constexpr RunArithmetic run_arithmetic(Arithmetic kind, const NumberFormat& format) {
  const bool wider = kind == Arithmetic::mixed && format.precision < fp32.precision;
  return {kind, format, wider ? fp32 : format};
}

}  // namespace periscope
