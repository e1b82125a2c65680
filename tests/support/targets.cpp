#include "tests/support/targets.h"

#include <initializer_list>
#include <string_view>

#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/cuda/on_host/backend.h"

namespace periscope::testing {
namespace {

/// The backend, or null if this build does not have it, or this machine not the device.
std::shared_ptr<const Backend> backend_if_there(std::string_view device) {
  try {
    return make_backend(device);
  } catch (const Error&) {
    return nullptr;
  }
}

/// Attention of the tests' sizes in several tiles.
constexpr cuda::Options small_tiles{.scores_at_once = 500};

std::vector<std::shared_ptr<const Backend>> find_backends() {
  std::vector<std::shared_ptr<const Backend>> found;
  for (const std::string_view device : device_names()) {
    if (device == "reference" || device == "cuda-tf32") continue;  // TF32 is no f32
    if (auto backend = backend_if_there(device)) found.push_back(std::move(backend));
  }
  found.push_back(make_cuda_backend_on_host(small_tiles));
  return found;
}

std::vector<Target> find_targets(std::initializer_list<DType> dtypes) {
  static const std::vector<std::shared_ptr<const Backend>> backends = find_backends();
  std::vector<Target> found;
  for (const auto& backend : backends) {
    for (const DType dtype : dtypes) {
      if (backend->supports(dtype)) found.push_back({backend, dtype});
    }
  }
  return found;
}

}  // namespace

std::string Target::name() const { return std::string(backend->name()) + " " + std::string(name_of(dtype)); }

const std::vector<Target>& targets() {
  static const std::vector<Target> found = find_targets({DType::f64, DType::f32});
  return found;
}

const std::vector<Target>& narrow_targets() {
  static const std::vector<Target> found = find_targets({DType::bf16, DType::f16});
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
