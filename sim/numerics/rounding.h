#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/numerics/number_format.h"

namespace periscope {

/// Rounds doubles to a number format, to nearest with ties to even or stochastically; subnormals are supported.
/// A sum, difference, product, quotient or square root of numbers in a format of at most 24 bits, computed in double
/// and then rounded, is correctly rounded: double rounding is harmless because 53 ≥ 2·24 + 2 bits.
class Rounding {
 public:
  /// The result if the rounded magnitude exceeds the largest finite number.
  enum class Overflow {
    by_format,  ///< infinity, or NaN in FP8 E4M3, which has no infinities
    infinite,   ///< infinity, also in E4M3
    saturate,   ///< ± the largest finite number, also for infinite input (OCP saturating conversion)
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

  /// Rounds to nearest, ties to even. Branch-free, so that loops are vectorised.
  [[nodiscard]] double operator()(double x) const {
    if (is_double_) return x;
    const double magnitude = std::abs(x);
    // anchor = 2^(E + 53 − p) for |x| in [2^E, 2^(E+1)). Doubles near it have the spacing 2^(E + 1 − p) of the format
    // near x. Clamping keeps the anchor finite; a clamped value still rounds beyond the largest number.
    const double limit = 2.0 * largest_;
    const double clamped = magnitude < limit ? magnitude : limit;
    const double anchor = std::bit_cast<double>((exponent_of(clamped) + shift_) << 52U);
    const double rounded = (clamped + anchor) - anchor;
    return std::isnan(x) ? x : std::copysign(rounded > largest_ ? overflow_ : rounded, x);
  }

  /// Rounds stochastically to one of the two neighbours of x in the format. The neighbour with the larger magnitude has
  /// the probability (|x| − lower)/(upper − lower). `word` is uniform on 0 … 2³² − 1. The mean result is x, with an
  /// error of at most 2⁻³² of upper − lower, or 0 if the probability has at most 32 bits. Numbers of the format are
  /// unchanged. Above the largest number, the upper neighbour is an overflow.
  [[nodiscard]] double stochastic(double x, std::uint32_t word) const {
    if (is_double_ || std::isnan(x)) return x;
    const double magnitude = std::abs(x);
    if (!(magnitude < 2.0 * largest_)) return std::copysign(overflow_, x);
    // upper − lower = 2^(E + 1 − p), since shift_ = 53 − p
    const double distance = std::bit_cast<double>((exponent_of(magnitude) + shift_ - 52) << 52U);
    const double lower = std::floor(magnitude / distance);
    const bool up = static_cast<double>(word) * 0x1p-32 < magnitude / distance - lower;
    const double rounded = (up ? lower + 1.0 : lower) * distance;
    return std::copysign(rounded > largest_ ? overflow_ : rounded, x);
  }
  [[nodiscard]] bool is_double() const { return is_double_; }

 private:
  /// The biased exponent of `magnitude` or of the format's smallest normal number, whichever is larger.
  [[nodiscard]] std::uint64_t exponent_of(double magnitude) const {
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(magnitude) >> 52U;
    return exponent > least_ ? exponent : least_;
  }

  bool is_double_;
  double largest_, overflow_;
  std::uint64_t shift_, least_;
};

}  // namespace periscope
