#include "sim/cuda/backend.h"

#include <cstdint>

#include "sim/cuda/on_device/errors.h"
#include "sim/cuda/ops.h"

namespace periscope {

std::unique_ptr<Backend> make_cuda_backend(const cuda::Options& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}

double cuda_peak_memory() {
  cudaMemPool_t pool = nullptr;
  std::uint64_t bytes = 0;
  cuda::check(cudaDeviceGetDefaultMemPool(&pool, 0), "GPU memory pool");
  cuda::check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &bytes), "GPU memory pool");
  return static_cast<double>(bytes);
}

}  // namespace periscope
