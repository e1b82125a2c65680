#pragma once

#include "sim/spec/key.h"

namespace periscope {

/// Numbers of seeds, of a run or at a width: what they add up to over stacks and widths still is an int.
constexpr Range seeds_from(double fewest) { return from_to(fewest, 1e6); }

}  // namespace periscope
