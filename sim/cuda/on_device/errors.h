#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <string>

#include "sim/cuda/host_device.h"

/// Reports CUDA failures as run-time failures (exit code 1) with a remedy.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Throws Error unless `status` is success; `what` names the operation.
void check(cudaError_t status, const char* what);
void check(cublasStatus_t status, const std::string& what);

[[noreturn]] void fail(const std::string& message);

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
