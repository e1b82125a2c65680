#pragma once

#include <memory>

#include "sim/core/backend.h"
#include "sim/cuda/options.h"

namespace periscope {

/// Returns the CUDA backend with host loops in place of kernels and tensors in host memory, for tests and
/// profiles on machines without a GPU. Its name is "cuda on host".
std::unique_ptr<Backend> make_cuda_backend_on_host(const cuda::Options& options = {});

}  // namespace periscope
