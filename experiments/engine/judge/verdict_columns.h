#pragma once

#include <string>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/table.h"

namespace periscope::judge {

inline const std::string detectable_words = "error that would have been rejected with 95 % probability (T22)";

/// PREFIXverdict, the answer to `question`, and its reason; where there are tests, worst_cell, _z, _excess and
/// _critical of the one nearest to rejection, the number of rejected ones, and power_worst and power_median (T22).
dataset::Table<StackVerdict> verdict_columns(const std::string& prefix, const std::string& on,
                                             const std::string& question);

/// NAME_power_worst, NAME_power_median and NAME_power_limit.
dataset::Table<GroupPower> power_columns(const std::string& name, const std::string& on);

}  // namespace periscope::judge
