#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "experiments/engine/settings/theory_override.h"
#include "sim/spec/profile.h"

namespace periscope::stacks {

/// The numbers of a predicted profile that a study compares with measurements. Gradients are grad_sq.
using Compared = std::function<std::vector<double>(const Profile&)>;

/// Returns the numbers that the verdict on a stack compares (stack_tests.h).
std::vector<double> verdict_numbers(const Profile& predicted);

/// Throws ConfigError if there is an override, by --theory-set or a planted fault (`own` as in planted_fault), and
/// `changes` is false for every stack: the run would test nothing.
void require_change(const config::Config& config, std::string_view study, const config::PlantedFault& own,
                    const std::function<bool(const StackSpec& measured, const StackSpec& overridden)>& changes);

/// The same, if the override changes no compared number of any stack. Compares sketches of theory (theory::sketch; with
/// `at_width` also one replicate of the finite-width chain, T25), which cost less than one seed.
void require_effective_override(const config::Config& config, std::string_view study, bool at_width,
                                const Compared& compared);

}  // namespace periscope::stacks
