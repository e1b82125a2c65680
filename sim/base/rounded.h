#pragma once

#include <fmt/format.h>

#include <string>

namespace periscope {

/// Returns v rounded to `digits` significant decimal digits.
inline double rounded(double v, int digits) { return std::stod(fmt::format("{:.{}e}", v, digits - 1)); }

}  // namespace periscope
