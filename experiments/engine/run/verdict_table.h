#pragma once

#include <string>
#include <vector>

#include "experiments/engine/run/stack_result.h"

namespace periscope::stacks {

/// For people: one row per stack with its predicted and measured second moment at the top of the stack, its
/// worst cell and its verdict; below, how the verdicts were reached. Coloured if `colour`.
std::string verdict_table(const std::vector<StackResult>& results, const config::AgreementOptions& options,
                          bool colour);

}  // namespace periscope::stacks
