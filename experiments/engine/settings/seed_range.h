#pragma once

#include "sim/base/key.h"

namespace periscope::config {

/// Returns the range of allowed numbers of seeds, of a run or of a width: from `fewest` to 1e6, so that the sum over
/// all stacks and widths fits an int.
constexpr Range seeds_from(double fewest) { return from_to(fewest, 1e6); }

}  // namespace periscope::config
