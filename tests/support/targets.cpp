#include "tests/support/targets.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/backends.h"
#include "sim/spec/error.h"

namespace periscope::testing {
namespace {

constexpr std::array dtypes{DType::f64, DType::f32};

/// The backend, or null if this build does not have it.
std::shared_ptr<const Backend> backend_if_built(std::string_view device) {
  try {
    return make_backend(device);
  } catch (const ConfigError&) {
    return nullptr;
  }
}

std::vector<Target> find_targets() {
  std::vector<Target> found;
  for (const std::string_view device : device_names()) {
    if (device == "reference") continue;
    const std::shared_ptr<const Backend> backend = backend_if_built(device);
    if (backend == nullptr) continue;
    for (const DType dtype : dtypes) {
      if (backend->supports(dtype)) found.push_back({backend, dtype});
    }
  }
  return found;
}

}  // namespace

std::string Target::name() const { return std::string(backend->name()) + " " + std::string(name_of(dtype)); }

const std::vector<Target>& targets() {
  static const std::vector<Target> found = find_targets();
  return found;
}

Target truth_target() {
  static const std::shared_ptr<const Backend> reference = make_backend("reference");
  return {reference, DType::f64};
}

const Backend& truth() {
  static const Target target = truth_target();
  return *target.backend;
}

}  // namespace periscope::testing
