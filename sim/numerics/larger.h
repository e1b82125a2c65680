#pragma once

#include <cmath>

namespace periscope {

/// The larger of two numbers; NaN if one is, so that a maximum does not hide it.
[[nodiscard]] inline double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace periscope
