#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "sim/spec/profile.h"

namespace periscope::stacks {

/// The numbers of a predicted profile that a study holds against what it measured. Gradients stand there as grad_sq.
using Compared = std::function<std::vector<double>(const Profile&)>;

/// All that the verdict on a stack compares (stack_tests.h), gradients with their matrices.
std::vector<double> verdict_numbers(const Profile& predicted);

/// Throws ConfigError if --theory-set overrides the specification, or theory carries a planted fault, and none of the
/// compared numbers of any stack changes by it: such a run looks like a confrontation and is none. Compares sketches of
/// theory (theory::sketch; with `at_width` also one replicate of T25's chain), which cost less than one seed.
void require_override_is_seen(const config::Config& config, std::string_view study, bool at_width,
                              const Compared& compared);

}  // namespace periscope::stacks
