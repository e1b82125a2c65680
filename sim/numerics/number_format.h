#pragma once

#include <array>
#include <string_view>

#include "sim/base/enumerators.h"

namespace periscope {

/// A binary floating-point format. Finite numbers are ±m·2^e where m has at most `precision` bits.
struct NumberFormat {
  std::string_view name;
  double largest;      ///< largest finite number
  int precision;       ///< bits of the significand, including the hidden bit
  int least_exponent;  ///< the smallest normal number is 2^least_exponent

  /// u: rounding to nearest changes a number in the normal range by at most u times its magnitude.
  [[nodiscard]] constexpr double unit_roundoff() const { return power_of_two(-precision); }
  /// ε = 2u: the distance from 1 to the next larger number.
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

/// IEEE binary64, binary32 and binary16. The simulator itself computes in the first two.
inline constexpr NumberFormat fp64{"fp64", 0x1.fffffffffffffp1023, 53, -1022};
inline constexpr NumberFormat fp32{"fp32", 0x1.fffffep127, 24, -126};
inline constexpr NumberFormat fp16{"fp16", 65504.0, 11, -14};
inline constexpr NumberFormat fp8_e5m2{"fp8_e5m2", 57344.0, 3, -14};
inline constexpr NumberFormat fp8_e4m3{"fp8_e4m3", 448.0, 4, -6};

/// The formats whose numerical headroom is evaluated: IEEE binary32 and binary16, bfloat16 (the upper half of
/// binary32), and the two 8-bit formats of the OCP specification (E4M3 has no infinities).
inline constexpr std::array<NumberFormat, 5> number_formats{fp32, NumberFormat{"bf16", 0x1.fep127, 8, -126}, fp16,
                                                            fp8_e5m2, fp8_e4m3};

/// γ_n = n·u/(1 − n·u): bound on the relative error of n roundings with unit round-off u. The error of a sum of n
/// terms, in any order, is at most γ_n·Σ|terms| (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1 and
/// §4.2).
[[nodiscard]] constexpr double rounding_bound(double n, double u) { return n * u / (1.0 - n * u); }

/// The arithmetic in which a stack is evaluated (T24).
enum class Arithmetic {
  exact,  ///< real numbers, with the stored weights
  mixed,  ///< the result of every op is rounded to the format; sums, norms and softmax accumulate in fp32
  pure,   ///< every intermediate result is rounded to the format, e.g. partial sums, x − mean and squares in a norm
};
inline constexpr std::array<std::string_view, 3> arithmetic_names{"exact", "mixed", "pure"};
static_assert(are_names_of<Arithmetic>(arithmetic_names));

/// An arithmetic with the formats of stored signals and of running sums.
struct RunArithmetic {
  Arithmetic kind = Arithmetic::exact;
  NumberFormat stored = fp64;
  NumberFormat accumulated = fp64;
};

/// Returns arithmetic `kind` with signals in `format`. Mixed arithmetic accumulates in the wider of fp32 and `format`.
[[nodiscard]] constexpr RunArithmetic run_arithmetic(Arithmetic kind, const NumberFormat& format) {
  const bool wider = kind == Arithmetic::mixed && format.precision < fp32.precision;
  return {kind, format, wider ? fp32 : format};
}

}  // namespace periscope
