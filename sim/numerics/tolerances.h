#pragma once

#include "sim/numerics/number_format.h"

/// Tolerances for rounding differences between two computations of the same number. A rigorous bound would be useless,
/// since it grows as the product of all condition numbers. The comment of each tolerance derives it; do not raise a
/// tolerance to make a failing check pass.
namespace periscope {

/// Rounding error of one pass through a stack, in units of ε = 2u. Each sublayer adds about eight rounding errors of
/// independent sign to an entry of the residual stream, so S sublayers add √(8S)·u. 100 ε is five times that for
/// S = 200, before a statistic averages over entries.
inline constexpr double roundings_of_a_pass = 100.0;

/// Tolerance of a statistic of one forward pass, relative to the magnitude of its terms.
[[nodiscard]] constexpr double forward_tolerance(const NumberFormat& format) {
  return roundings_of_a_pass * format.spacing_at_1();
}

/// Absolute tolerance of the logarithm of a gradient norm, after a forward and a backward pass with three times as many
/// operations: 450 ε in fp64. Narrower formats use about forward_tolerance, since other errors are far larger there.
[[nodiscard]] constexpr double backward_tolerance(const NumberFormat& format) {
  if (format.precision == fp64.precision) return 1e-13;
  return format.precision == fp32.precision ? 1e-5 : forward_tolerance(format);
}

/// A quotient gradient/bound is resolved if its relative rounding error is at most this (f64; analysis in
/// experiments/studies/verify/evaluate.cpp). An attained bound may be exceeded by ten times as much: the largest of all
/// quotients has the largest rounding error, and the factors of the bound are rounded too.
inline constexpr double resolved_share = 1e-10;
inline constexpr double attained_limit = 1.0 + 10.0 * resolved_share;

}  // namespace periscope
