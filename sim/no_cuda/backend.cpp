#include "sim/cuda/backend.h"

#include "sim/spec/error.h"

namespace periscope {

std::unique_ptr<Backend> make_cuda_backend(const cuda::Options& /*options*/) {
  throw ConfigError("device = \"cuda\": this build has no CUDA backend; use cpu or reference");
}

}  // namespace periscope
