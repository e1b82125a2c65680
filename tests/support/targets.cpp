#include "tests/support/targets.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/processor.h"
#include "sim/cpu/levels.h"
#include "sim/cuda/on_host/backend.h"

namespace periscope::testing {
namespace {

/// Returns the backend, or null if the build or the machine does not support the device.
std::shared_ptr<const Backend> available_backend(std::string_view device) {
  try {
    return make_backend(device);
  } catch (const Error&) {
    return nullptr;
  }
}

/// Small enough to split the tests' attention into several tiles.
constexpr cuda::Options small_tiles{.scores_at_once = 500};

struct Found {
  std::shared_ptr<const Backend> backend;
  std::string instructions;
};

std::vector<Found> find_backends() {
  std::vector<Found> found;
  for (const CpuLevel& level : cpu_levels()) {
    if (level.processor <= processor_level()) found.push_back({level.make(), std::string(level.name)});
  }
  if (auto gpu = available_backend("cuda")) found.push_back({std::move(gpu), ""});  // cuda-tf32 does not compute in f32
  found.push_back({make_cuda_backend_on_host(small_tiles), ""});
  return found;
}

std::vector<Target> find_targets(std::initializer_list<DType> dtypes) {
  static const std::vector<Found> backends = find_backends();
  std::vector<Target> found;
  for (const auto& [backend, instructions] : backends) {
    for (const DType dtype : dtypes) {
      if (backend->supports(dtype)) found.push_back({backend, dtype, instructions});
    }
  }
  return found;
}

}  // namespace

std::string Target::name() const {
  const std::string level = instructions.empty() ? "" : " " + instructions;
  return std::string(backend->name()) + level + " " + std::string(name_of(dtype));
}

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

std::vector<Target> targets_of_every_dtype() { return find_targets({DType::f64, DType::f32, DType::bf16, DType::f16}); }

std::vector<Target> targets_and_truth() {
  std::vector<Target> all = targets();
  all.push_back(truth_target());
  return all;
}

const Backend& truth() {
  static const Target target = truth_target();
  return *target.backend;
}

}  // namespace periscope::testing
