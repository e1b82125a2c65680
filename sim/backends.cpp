#include "sim/backends.h"

#include <fmt/format.h>

#include <array>

#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/cpu/backend.h"
#include "sim/cpu/levels.h"
#include "sim/cuda/backend.h"
#include "sim/reference/backend.h"

namespace periscope {
namespace {

constexpr std::array<std::string_view, 4> names{"cpu", "reference", "cuda", "cuda-tf32"};

}  // namespace

std::span<const std::string_view> device_names() { return names; }

std::unique_ptr<Backend> make_backend(std::string_view device) {
  if (device == "cpu") return make_cpu_backend();
  if (device == "reference") return make_reference_backend();
  if (device == "cuda") return make_cuda_backend();
  if (device == "cuda-tf32") return make_cuda_backend({.tf32 = true});
  throw ConfigError(fmt::format("run.device = \"{}\": expected cpu, reference, cuda or cuda-tf32", shortened(device)));
}

std::string_view instructions_of(std::string_view device) {
  return device == "cpu" ? cpu_level().name : PERISCOPE_COMPILED_FOR;
}

}  // namespace periscope
