#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/numerics/number_format.h"

namespace periscope {

/// Rounds doubles to a number format: to nearest, ties to even, with subnormals. What rounds beyond the largest finite
/// number becomes infinite, or not a number in FP8 E4M3, which has no infinities.
/// A sum, difference, product, quotient or square root of numbers of a format with at most 24 bits, computed in double
/// and then rounded, is the correctly rounded one: 53 ≥ 2·24 + 2 bits make the double rounding harmless.
class Rounding {
 public:
  /// What a number beyond the largest finite one becomes.
  enum class Overflow {
    as_stored,  ///< as above
    infinite,   ///< infinity, also in E4M3
  };
  explicit Rounding(const NumberFormat& format, Overflow overflow = Overflow::as_stored)
      : is_double_(format.precision == 53),
        largest_(format.largest),
        overflow_(format.name == "fp8_e4m3" && overflow == Overflow::as_stored
                      ? std::numeric_limits<double>::quiet_NaN()
                      : std::numeric_limits<double>::infinity()),
        shift_(static_cast<std::uint64_t>(53 - format.precision)),
        least_(static_cast<std::uint64_t>(format.least_exponent + 1023)) {}

  [[nodiscard]] double operator()(double x) const {
    if (is_double_) return x;
    const double magnitude = std::abs(x);
    if (!(magnitude < 2.0 * largest_)) return std::isnan(x) ? x : std::copysign(overflow_, x);
    // 2^(E + 53 − p) for |x| in [2^E, 2^(E+1)): its neighbours are 2^(E + 1 − p) apart, as those of x in the format.
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(magnitude) >> 52U;
    const double anchor = std::bit_cast<double>(((exponent > least_ ? exponent : least_) + shift_) << 52U);
    const double rounded = (magnitude + anchor) - anchor;
    return std::copysign(rounded > largest_ ? overflow_ : rounded, x);
  }
  [[nodiscard]] bool is_double() const { return is_double_; }

 private:
  bool is_double_;
  double largest_, overflow_;
  std::uint64_t shift_, least_;
};

}  // namespace periscope
