#pragma once

#include <memory>

#include "sim/core/backend.h"

namespace periscope {

/// Returns the Eigen and OpenMP backend for f32 and f64 at cpu_level() (levels.h). Throws like cpu_level.
/// Results are bitwise identical for any number of threads: work is split by shape and summed in a fixed order.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace periscope
