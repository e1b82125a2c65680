#include "sim/cuda/backend.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace periscope {

std::unique_ptr<Backend> make_cuda_backend(const cuda::Options& options) {
  throw ConfigError(fmt::format("run.device = \"{}\": this build has no CUDA backend; expected cpu or reference",
                                options.tf32 ? "cuda-tf32" : "cuda"));
}

}  // namespace periscope
