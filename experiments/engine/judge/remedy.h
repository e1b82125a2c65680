#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {

/// Returns the detectable error of `test` with `seeds_times` as many seeds in a stack that is `width_times` as wide,
/// with as many times more heads: a measured variance falls as one over seeds and width, a tolerated bias as one over
/// width, and a prediction keeps its error, except for the finite-width chain (T25), which has the same spread as the
/// measurement, and replicates in proportion to seeds unless their number is given.
double projected_error(const Test& test, double level, double seeds_times, double width_times);

/// The remedy if neither seeds nor width within 1000 times the current ones would decide.
inline constexpr std::string_view nothing_within_reach = "not even 1000 times the seeds or the width would decide";

/// Returns what would make underpowered tests decide: "about 96 seeds, or width 512, would decide", the fewest seeds
/// and the smallest width (times a power of two, within 1000 times the current ones) with which no detectable error
/// exceeds its limit. If neither is enough, names both together, or the key that makes predictions more precise. Empty
/// if no test is underpowered or one is not finite. A `width` of 0 is not named.
std::string remedy(const std::vector<Test>& tests, double level, int width);

}  // namespace periscope::judge
