#pragma once

#include <memory>

#include "sim/core/backend.h"

namespace periscope {

/// Eigen and OpenMP, f32 and f64. Work is cut into pieces that depend on the shapes alone, and every
/// piece is summed in one order: results are the same bits for any number of threads. At the level of cpu_level()
/// (levels.h), and with its errors.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace periscope
