#pragma once

#include <vector>

#include "experiments/common/progress.h"
#include "experiments/common/stack_result.h"

namespace periscope {

/// Predicts every stack of `config`, measures nothing. With `at_width` forward statistics are those of the stack's own
/// widths (T25), else their limit; gradients are those of the limit either way.
/// Throws Stopped.
std::vector<StackResult> predict_stacks(const Config& config, bool at_width, const Progress& progress);

struct PropagateResult {
  std::vector<StackResult> stacks;
  bool stopped_early = false;  ///< stacks are predicted, some measured, none judged
};

/// The same as a result that may have been stopped; at_width as theory.finite_width says, else not.
PropagateResult predict(const Config& config, Progress& progress);

/// Predicts, at the stack's own widths unless theory.finite_width is false, and measures every stack of `config` over
/// its seeds, and judges all of them together.
PropagateResult propagate(const Config& config, Progress& progress);

}  // namespace periscope
