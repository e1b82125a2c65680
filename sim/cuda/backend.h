#pragma once

#include <memory>

#include "sim/core/backend.h"
#include "sim/cuda/options.h"

namespace periscope {

/// The ops on the first NVIDIA GPU, in f64, f32, bf16 and f16. Throws Error with the exit code of a run-time failure if
/// there is no driver, device or library. Where the program is built without CUDA (sim/no_cuda/), it throws
/// ConfigError.
std::unique_ptr<Backend> make_cuda_backend(const cuda::Options& options = {});

}  // namespace periscope
