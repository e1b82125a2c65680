#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <string>

#include "sim/cuda/host_device.h"

/// Failures of CUDA as run-time failures (exit code 1), with what to do about them.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Throws Error with `what` in the sentence unless `status` is success.
void check(cudaError_t status, const char* what);
void check(cublasStatus_t status, const std::string& what);

[[noreturn]] void fail(const std::string& sentence);

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
