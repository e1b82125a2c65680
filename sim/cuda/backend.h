#pragma once

#include <memory>

#include "sim/core/backend.h"
#include "sim/cuda/options.h"

namespace periscope {

/// Returns the backend for the first NVIDIA GPU; supports f64, f32, bf16 and f16. Throws Error (run-time failure) if a
/// driver, device or library is missing. Throws ConfigError if the program was built without CUDA (sim/no_cuda/).
std::unique_ptr<Backend> make_cuda_backend(const cuda::Options& options = {});

}  // namespace periscope
