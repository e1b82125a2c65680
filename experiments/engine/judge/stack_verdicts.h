#pragma once

#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/settings/config.h"

namespace periscope::judge {

/// Compares predictions and measurements, of all stacks together: the tests of stack_tests() and, with per-seed curves,
/// contrasts(). Not checked without a prediction, if a seed diverged, or with fewer than 4 seeds; inconclusive if
/// nothing is compared, if a number is out of the dtype's range, or if gradients were measured and are not predicted.
std::vector<StackVerdict> verdicts_of(const std::vector<Comparison>& comparisons,
                                      const config::AgreementOptions& options);

}  // namespace periscope::judge
