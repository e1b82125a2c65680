#include "sim/cuda/backend.h"

#include "sim/cuda/ops.h"

namespace periscope {

std::unique_ptr<Backend> make_cuda_backend(const cuda::Options& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}

}  // namespace periscope
