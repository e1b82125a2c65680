#pragma once

#include <cstddef>

#include "sim/numerics/number_format.h"

/// How much one rounding of independent Gaussian entries loses, as the ratio E(x̂ − x)²/E x² (T26). In decibels it is
/// −10 log10 of that.
namespace periscope::theory {

/// Of rounding N(0, σ²) to nearest in a floating format, between its overflow and nothing: in the binade
/// [2^e, 2^(e+1)) the error is uniform over a spacing of 2^(e+1−p), its mean square 4^(e+1−p)/12, below the smallest
/// normal number 2^m that of e = m. The mean over binades with their probabilities, over σ². Far from both ends about
/// 0.154·4^−p, that is 6.02p + 8.1 dB.
double floating_noise(const NumberFormat& format, double sigma);

/// Of absmax-scaled whole numbers −Q … Q over groups of `group` entries: the scale is a/Q with a = max|x|/σ, the error
/// uniform over it: E[a²]/(12Q²), but for the largest entry, which has none. E[a²] is integrated.
double integer_noise(int largest_integer, std::size_t group);

}  // namespace periscope::theory
