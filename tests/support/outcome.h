#pragma once

#include <vector>

#include "tests/support/recorded_stack.h"

namespace periscope::testing {

/// Recorded forward pass over token ids, with logits [N, V].
struct Outcome {
  RecordedStack stack;
  std::vector<double> logits;
};
[[nodiscard]] Outcome outcome_of(const StackContext& context, const std::vector<int>& ids);

[[nodiscard]] std::vector<double> times(double factor, std::vector<double> x);

}  // namespace periscope::testing
