#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/numerics/number_format.h"

namespace periscope {

/// Rounds doubles to a number format: to nearest, ties to even, or stochastically, with subnormals. What rounds beyond
/// the largest finite number becomes infinite, or not a number in FP8 E4M3, which has no infinities.
/// A sum, difference, product, quotient or square root of numbers of a format with at most 24 bits, computed in double
/// and then rounded, is the correctly rounded one: 53 ≥ 2·24 + 2 bits make the double rounding harmless.
class Rounding {
 public:
  /// Says what a number beyond the largest finite one becomes.
  enum class Overflow {
    by_format,  ///< as above
    infinite,   ///< infinity, also in E4M3
    saturate,   ///< the largest finite number with its sign, as the OCP specification's saturating conversion; of
                ///< infinity too
  };
  explicit Rounding(const NumberFormat& format, Overflow overflow = Overflow::by_format)
      : is_double_(format.precision == 53),
        largest_(format.largest),
        overflow_(overflow == Overflow::saturate ? format.largest
                  : format.name == "fp8_e4m3" && overflow == Overflow::by_format
                      ? std::numeric_limits<double>::quiet_NaN()
                      : std::numeric_limits<double>::infinity()),
        shift_(static_cast<std::uint64_t>(53 - format.precision)),
        least_(static_cast<std::uint64_t>(format.least_exponent + 1023)) {}

  /// Rounds to nearest, ties to even. (Without a branch, so that loops become vector instructions.)
  [[nodiscard]] double operator()(double x) const {
    if (is_double_) return x;
    const double magnitude = std::abs(x);
    // 2^(E + 53 − p) for |x| in [2^E, 2^(E+1)): its neighbours are 2^(E + 1 − p) apart, as those of x in the format.
    // The clamped magnitude keeps this finite; what was cut off rounds beyond the largest number all the same.
    const double limit = 2.0 * largest_;
    const double clamped = magnitude < limit ? magnitude : limit;
    const double anchor = std::bit_cast<double>((exponent_of(clamped) + shift_) << 52U);
    const double rounded = (clamped + anchor) - anchor;
    return std::isnan(x) ? x : std::copysign(rounded > largest_ ? overflow_ : rounded, x);
  }

  /// Rounds to one of the two neighbours of x in the format, the upper one (by magnitude) with the probability (|x| −
  /// lower)/(upper − lower), so that the mean over `word`, uniform on 0 … 2³² − 1, is x, up to 2⁻³² of their distance,
  /// and exactly where the probability has at most 32 bits. A number of the format stays. Beyond the largest number the
  /// upper neighbour is an overflow.
  [[nodiscard]] double stochastic(double x, std::uint32_t word) const {
    if (is_double_ || std::isnan(x)) return x;
    const double magnitude = std::abs(x);
    if (!(magnitude < 2.0 * largest_)) return std::copysign(overflow_, x);
    // As shift_ = 53 − p, this is the distance 2^(E + 1 − p) of the neighbours.
    const double distance = std::bit_cast<double>((exponent_of(magnitude) + shift_ - 52) << 52U);
    const double lower = std::floor(magnitude / distance);
    const bool up = static_cast<double>(word) * 0x1p-32 < magnitude / distance - lower;
    const double rounded = (up ? lower + 1.0 : lower) * distance;
    return std::copysign(rounded > largest_ ? overflow_ : rounded, x);
  }
  [[nodiscard]] bool is_double() const { return is_double_; }

 private:
  /// The biased exponent, at least that of the format's smallest normal number.
  [[nodiscard]] std::uint64_t exponent_of(double magnitude) const {
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(magnitude) >> 52U;
    return exponent > least_ ? exponent : least_;
  }

  bool is_double_;
  double largest_, overflow_;
  std::uint64_t shift_, least_;
};

}  // namespace periscope
