#include "sim/cuda/on_device/errors.h"

#include "sim/base/error.h"
#include "sim/cuda/launch.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

void fail(const std::string& sentence) { throw Error(ExitCode::runtime_failure, "device = \"cuda\": " + sentence); }

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // else the next call would report it again
  switch (status) {
    case cudaErrorInsufficientDriver:
      fail("no NVIDIA driver, or one that is older than CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
           std::to_string(CUDART_VERSION % 1000 / 10) + ", with which this program was built; --device cpu needs none");
    case cudaErrorNoDevice: fail("the driver finds no NVIDIA GPU; --device cpu needs none");
    case cudaErrorNoKernelImageForDevice:
      fail("this program has no kernels for this GPU: it needs one of compute capability 8.0 or later");
    case cudaErrorMemoryAllocation: {
      std::size_t free = 0;
      std::size_t total = 0;
      (void)cudaMemGetInfo(&free, &total);
      constexpr std::size_t mib = std::size_t{1} << 20U;
      fail(std::string("out of GPU memory in ") + what + " (" + std::to_string(free / mib) + " of " +
           std::to_string(total / mib) + " MiB are free); fewer tokens or a narrower --dtype need less");
    }
    default: fail(std::string(what) + " failed: " + cudaGetErrorString(status));
  }
}

void check(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(what + " failed: cuBLAS's status " + std::to_string(status));
}

void check_launch() { check(cudaGetLastError(), "a kernel's launch"); }

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
