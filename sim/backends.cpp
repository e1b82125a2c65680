#include "sim/backends.h"

#include <fmt/format.h>

#include <array>

#include "sim/cpu/backend.h"
#include "sim/no_cuda/backend.h"
#include "sim/reference/backend.h"
#include "sim/spec/error.h"
#include "sim/spec/printable.h"

namespace periscope {
namespace {

constexpr std::array<std::string_view, 3> names{"cpu", "reference", "cuda"};

}  // namespace

std::span<const std::string_view> device_names() { return names; }

std::unique_ptr<Backend> make_backend(std::string_view device) {
  if (device == "cpu") return make_cpu_backend();
  if (device == "reference") return make_reference_backend();
  if (device == "cuda") return make_cuda_backend();
  throw ConfigError(fmt::format("run.device = \"{}\": expected cpu, reference or cuda", shortened(device)));
}

}  // namespace periscope
