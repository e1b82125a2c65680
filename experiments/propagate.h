#pragma once

#include <vector>

#include "experiments/common/stack_result.h"

namespace periscope {

/// Predicts every stack of `config`, measures nothing. With `at_width` forward statistics are those of the stack's own
/// widths (T25), else their limit; gradients are those of the limit either way.
std::vector<StackResult> predict_stacks(const Config& config, bool at_width);

/// Predicts, at the stack's own widths unless theory.finite_width is false, and measures every stack of `config` over
/// its seeds, and judges all of them together.
std::vector<StackResult> propagate(const Config& config, bool quiet);

}  // namespace periscope
