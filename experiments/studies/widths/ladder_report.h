#pragma once

#include <string>

#include "experiments/core/dataset/columns.h"
#include "experiments/core/stacks/ladder.h"

namespace periscope::ladder {

std::string table(const LadderResult& result, const Config& config);
const Schema& schema();
Columns columns(const LadderConfig& config, const LadderResult& result);

}  // namespace periscope::ladder
