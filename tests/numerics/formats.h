#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/numerics/number_format.h"

namespace periscope::testing {

inline const NumberFormat& format_called(std::string_view name) {
  return *std::ranges::find(number_formats, name, &NumberFormat::name);
}

/// Whether both are NaN, or the same number with the same sign, that of a zero too.
inline bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace periscope::testing
