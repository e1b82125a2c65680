#pragma once

#include <cmath>

namespace periscope {

/// Square root for Eigen's unaryExpr. Eigen's sqrt() and rsqrt() of float arrays use an approximate instruction, whose
/// result depends on the maker of the processor.
inline constexpr auto exact_sqrt = [](auto x) { return std::sqrt(x); };

}  // namespace periscope
