#pragma once

#include <vector>

#include "experiments/common/stack_result.h"

namespace periscope {

/// Predicts every stack of `config`, measures nothing.
std::vector<StackResult> predict_stacks(const Config& config);

/// Predicts and measures every stack of `config` over its seeds, and judges all of them together.
std::vector<StackResult> propagate(const Config& config, bool quiet);

}  // namespace periscope
