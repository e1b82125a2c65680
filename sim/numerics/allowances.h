#pragma once

#include "sim/numerics/number_format.h"

/// Allowances for how far apart rounding alone may bring two computations of one number, where a bound for every
/// operation would say nothing (it grows as the product of all condition numbers). Each follows from the analysis
/// beside it; a check that fails is no reason to raise it.
namespace periscope {

/// Roundings of one pass through a stack, in units of ε = 2u. A sublayer adds about eight to an entry of the stream:
/// products whose sums run in several parts, norm, module, residual sum. Their signs are independent, so S sublayers
/// add up to √(8S)·u: 100 ε is five times that for S = 200, before a statistic averages over entries.
inline constexpr double roundings_of_a_pass = 100.0;

/// The allowance for a statistic of one pass, relative to the size of what it is made of.
[[nodiscard]] constexpr double pass_allowance(const NumberFormat& format) {
  return roundings_of_a_pass * format.spacing_at_1();
}

/// The allowance for the logarithm of a gradient's norm, after a forward and a backward pass, whose steps are three
/// times as many. In fp64 it is 450 ε. In narrower formats about that of a pass is enough, since the other errors of a
/// verdict are far larger.
[[nodiscard]] constexpr double backward_allowance(const NumberFormat& format) {
  if (format.precision == fp64.precision) return 1e-13;
  return format.precision == fp32.precision ? 1e-5 : pass_allowance(format);
}

/// A quotient of a gradient and its bound counts as resolved where rounding may be at most this much of it (f64; the
/// analysis is in verify/evaluate.cpp), and a limit that is attained may be passed by ten times as much: the largest
/// of all quotients has the largest rounding, and the limit's own factors are rounded too.
inline constexpr double resolved_share = 1e-10;
inline constexpr double attained_limit = 1.0 + 10.0 * resolved_share;

}  // namespace periscope
