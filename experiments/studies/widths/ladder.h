#pragma once

#include <string>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/ladder.h"
#include "experiments/studies/widths/convergence.h"

namespace periscope::ladder {

std::string table(const stacks::LadderResult& result, const config::Config& config);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const stacks::LadderConfig& config, const stacks::LadderResult& result,
                            const ConvergenceResult& convergence);

}  // namespace periscope::ladder
