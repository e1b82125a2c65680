#pragma once

#include <memory>

#include "sim/core/backend.h"

namespace periscope {

/// Returns the backend for f32 and f64 that uses Eigen and OpenMP, at the level cpu_level() (levels.h), whose errors it
/// throws. Work is split by shape only and every piece is summed in a fixed order, so results are bitwise identical for
/// any number of threads.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace periscope
