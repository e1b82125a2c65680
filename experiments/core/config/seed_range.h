#pragma once

#include "sim/base/key.h"

namespace periscope::config {

/// How many seeds a run, or a width, may have: few enough that their sum over all stacks and widths fits an int.
constexpr Range seeds_from(double fewest) { return from_to(fewest, 1e6); }

}  // namespace periscope::config
