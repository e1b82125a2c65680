#pragma once

#include <memory>

#include "sim/core/backend.h"
#include "sim/cuda/options.h"

namespace periscope {

/// Returns the backend for the first NVIDIA GPU; supports f64, f32, bf16 and f16. Throws Error (run-time failure) if a
/// driver, device or library is missing. Throws ConfigError if the program was built without CUDA (sim/no_cuda/).
std::unique_ptr<Backend> make_cuda_backend(const cuda::Options& options = {});

/// Returns the largest number of bytes of GPU memory in use at a time by this process's CUDA backends, excluding the
/// workspace of cuBLAS and the driver's memory. Throws the same errors as ops; returns 0 in a build without CUDA.
double cuda_peak_memory();

}  // namespace periscope
