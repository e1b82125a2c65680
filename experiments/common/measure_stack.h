#pragma once

#include <functional>

#include "experiments/common/config.h"
#include "experiments/common/progress.h"
#include "sim/core/backend.h"
#include "sim/measure/seed_average.h"
#include "sim/model/context.h"

namespace periscope {

/// The input [T, D] of seed `seed`, before the embedding norm: Gaussian, or rows of the embedding table.
Tensor stack_input(const StackContext& context, const StackSpec& spec, DType dtype, std::uint64_t seed);

/// Propagates the seeds run.seed … run.seed + seeds − 1 through fresh stacks of `spec`, with run.backward also
/// back from the loss of label_ids, and averages. Calls `on_seed` with every reading, in the order of the seeds, one at
/// a time. Readings that progress.journal() has are not measured again. Throws what a seed throws, and Stopped.
SeedAverage measure_stack(const Backend& backend, const StackSpec& spec, const RunOptions& run, int seeds,
                          Progress& progress, const std::function<void(const Reading&)>& on_seed);

}  // namespace periscope
