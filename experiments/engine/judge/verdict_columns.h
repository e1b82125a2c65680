#pragma once

#include <string>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/table.h"

namespace periscope::judge {

inline const std::string detectable_words = "error that would have been rejected with 95 % probability (T22)";

/// The columns of the test nearest to rejection, worst_cell, worst_excess and worst_critical; of how many were
/// rejected; and of detectable errors, power_worst and power_median. For a verdict with tests.
dataset::Table<StackVerdict> worst_columns(const std::string& on);

/// NAME_power_worst, NAME_power_median and NAME_power_limit.
dataset::Table<GroupPower> power_columns(const std::string& name, const std::string& on);

}  // namespace periscope::judge
