#pragma once

#include <cmath>

namespace periscope {

/// Returns the larger of two numbers, or NaN if either is NaN.
[[nodiscard]] inline double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace periscope
