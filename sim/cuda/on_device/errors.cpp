#include "sim/cuda/on_device/errors.h"

#include "sim/base/error.h"
#include "sim/cuda/launch.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

void fail(const std::string& message) { throw Error(ExitCode::runtime_failure, "device = \"cuda\": " + message); }

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // clears the error, which the next call would report again
  switch (status) {
    case cudaErrorInsufficientDriver:
      fail("no NVIDIA driver that supports CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
           std::to_string(CUDART_VERSION % 1000 / 10) + " found; update the driver or use --device cpu");
    case cudaErrorNoDevice: fail("no NVIDIA GPU found; use --device cpu");
    case cudaErrorNoKernelImageForDevice:
      fail("unsupported GPU: expected compute capability 8.0 or later; use --device cpu");
    case cudaErrorMemoryAllocation: {
      std::size_t free = 0;
      std::size_t total = 0;
      (void)cudaMemGetInfo(&free, &total);
      constexpr std::size_t mib = std::size_t{1} << 20U;
      fail(std::string("out of GPU memory in ") + what + " (" + std::to_string(free / mib) + " of " +
           std::to_string(total / mib) + " MiB free); use fewer tokens or a narrower --dtype");
    }
    default: fail(std::string(what) + " failed: " + cudaGetErrorString(status));
  }
}

void check(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(what + " failed: cuBLAS status " + std::to_string(status));
}

void check_launch() { check(cudaGetLastError(), "kernel launch"); }

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
