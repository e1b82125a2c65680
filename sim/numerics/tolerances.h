#pragma once

#include "sim/numerics/number_format.h"

/// Tolerances for the effect of rounding on two computations of one number, where a bound for every operation would be
/// useless (it grows as the product of all condition numbers). Each follows from the analysis next to it; a failing
/// check is no reason to raise it.
namespace periscope {

/// Roundings of one pass through a stack, in units of ε = 2u. A sublayer adds about eight of independent sign to an
/// entry of the stream, so S sublayers add √(8S)·u: 100 ε is five times that for S = 200, before a statistic averages
/// over entries.
inline constexpr double roundings_of_a_pass = 100.0;

/// For a statistic of one pass, relative to the size of its terms.
[[nodiscard]] constexpr double forward_tolerance(const NumberFormat& format) {
  return roundings_of_a_pass * format.spacing_at_1();
}

/// For the logarithm of a gradient's norm, after a forward and a backward pass, with three times as many steps: 450 ε
/// in fp64. In narrower formats about that of a pass is enough, since the other errors of a verdict are far larger.
[[nodiscard]] constexpr double backward_tolerance(const NumberFormat& format) {
  if (format.precision == fp64.precision) return 1e-13;
  return format.precision == fp32.precision ? 1e-5 : forward_tolerance(format);
}

/// A quotient of a gradient and its bound is resolved if rounding is at most this share of it (f64; analysis in
/// verify/evaluate.cpp). An attained limit may be exceeded by ten times as much: the largest of all quotients has the
/// largest rounding, and the limit's own factors are rounded too.
inline constexpr double resolved_share = 1e-10;
inline constexpr double attained_limit = 1.0 + 10.0 * resolved_share;

}  // namespace periscope
