#pragma once

#include <string>

#include "experiments/core/dataset/schema.h"
#include "experiments/core/stacks/ladder.h"

namespace periscope::ladder {

std::string table(const LadderResult& result, const Config& config);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const LadderConfig& config, const LadderResult& result);

}  // namespace periscope::ladder
