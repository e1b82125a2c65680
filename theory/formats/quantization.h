#pragma once

#include <cstddef>

#include "sim/numerics/number_format.h"

/// The loss of one rounding of independent Gaussian entries, as the ratio E(x̂ − x)²/E x² (T26). In decibels it is −10
/// log10 of that. Rounding is to nearest, or stochastic: to one of the two neighbours a ≤ x ≤ b with mean x, which has
/// E(x̂ − x)² = (x − a)(b − x).
namespace periscope::theory {

/// Returns the loss of rounding N(0, σ²) in a floating format, between its overflow and nothing: in the binade [2^e,
/// 2^(e+1)) numbers are 2^(e+1−p) apart and x is anywhere between two of them, so the mean square of the error is
/// 4^(e+1−p)/12 to nearest and twice that stochastically. Below the smallest normal number 2^m they are as far apart as
/// in e = m, and where that is not small beside σ the mean over the places of x is taken. The mean over binades with
/// their probabilities, over σ². Far from both ends, to nearest: 0.1803·4^−p over phases of log₂ σ, 6.02p + 7.44 dB.
double floating_noise(const NumberFormat& format, double sigma, bool stochastic = false);

/// Returns the loss of absmax-scaled whole numbers −Q … Q over groups of `group` entries: the scale is a/Q with a =
/// max|x|/σ, x is anywhere between two of its multiples: E[a²]/(12Q²), stochastically twice that, but for the largest
/// entry, which has no error. E[a²] is integrated.
double integer_noise(int largest_integer, std::size_t group, bool stochastic = false);

}  // namespace periscope::theory
