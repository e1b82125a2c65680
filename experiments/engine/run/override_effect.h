#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "experiments/engine/settings/theory_override.h"
#include "sim/spec/profile.h"

namespace periscope::stacks {

/// Returns the numbers of a predicted profile that a study compares with measurements; gradients as grad_sq.
using Compared = std::function<std::vector<double>(const Profile&)>;

/// Returns the predicted numbers that a stack's verdict compares (stack_tests.h).
std::vector<double> verdict_numbers(const Profile& predicted);

/// Throws ConfigError if there is an override (--theory-set or a planted fault, `own` as in planted_fault) but
/// `changes` is false for every stack, so that the run would test nothing.
void require_change(const config::Config& config, std::string_view study, const config::PlantedFault& own,
                    const std::function<bool(const StackSpec& measured, const StackSpec& overridden)>& changes);

/// Calls require_change for an override that must change a compared number. Compares theory::quick_profile with and
/// without the override, and with `at_width` also one replicate of the finite-width chain (T25). Costs less than one
/// seed.
void require_effective_override(const config::Config& config, std::string_view study, bool at_width,
                                const Compared& compared);

}  // namespace periscope::stacks
