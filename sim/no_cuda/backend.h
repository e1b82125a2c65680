#pragma once

#include <memory>

#include "sim/core/backend.h"

namespace periscope {

/// Stands where the CUDA backend will stand. Throws ConfigError: this build has no CUDA.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace periscope
