#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {

/// Returns the detectable error of `test` if the number of seeds is multiplied by `seeds_times`, and width and heads by
/// `width_times`. The measured variance is proportional to 1/(seeds · width), the tolerated bias to 1/width, and the
/// error of a prediction is constant. Exception: the finite-width chain (T25) has the same spread as the measurement,
/// and replicates in proportion to seeds unless their number is set.
double projected_error(const Test& test, double level, double seeds_times, double width_times);

/// Remedy if only a larger width is sufficient, and remedy if not even 1000 times the current values are sufficient.
inline constexpr char more_seeds_useless[] = "use width {} (more seeds do not help)";
inline constexpr std::string_view nothing_within_reach = "not even 1000 times the seeds or the width would suffice";

/// Returns a remedy for underpowered tests, such as "use about 96 seeds, or width 512": the smallest number of seeds
/// and the smallest width (the current one times a power of two) for which no detectable error exceeds its limit, up to
/// about 1000 times the current values. If neither suffices, suggests both, or more precise predictions with their key.
/// Returns "" if no test is underpowered or a test is not finite. With `width` = 0 suggests no width.
std::string remedy(const std::vector<Test>& tests, double level, int width);

}  // namespace periscope::judge
