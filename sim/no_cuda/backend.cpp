#include "sim/cuda/backend.h"

#include <fmt/format.h>

#include <string_view>

#include "sim/base/error.h"

namespace periscope {
namespace {

[[noreturn]] void fail(std::string_view device) {
  throw ConfigError(
      fmt::format("run.device = \"{}\": this build has no CUDA backend; expected cpu or reference", device));
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const cuda::Options& options) { fail(options.tf32 ? "cuda-tf32" : "cuda"); }

double cuda_peak_memory() { fail("cuda"); }

}  // namespace periscope
