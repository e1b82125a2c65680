#pragma once

#include "experiments/core/stacks/need.h"

namespace periscope::stacks {

/// scaled_limit_need with sizes inside matrices (T29): chains that hold a kernel for every branch, and kernels of the
/// activation at every node of the rule over hidden channels.
Need profiled_limit_need(const StackSpec& spec, int threads);

}  // namespace periscope::stacks
