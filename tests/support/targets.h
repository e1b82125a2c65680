#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/core/backend.h"

namespace periscope::testing {

/// A backend and a dtype to test. One test body serves them all.
struct Target {
  std::shared_ptr<const Backend> backend;
  DType dtype;
  std::string instructions = {};  ///< of a backend that is there for several levels
  [[nodiscard]] std::string name() const;
};

/// Every backend that this build and this machine have, but the reference, in f64 and f32: the CPU's at every level
/// (sim/cpu/levels.h), the CUDA backend twice if there is a GPU, there and on the host.
const std::vector<Target>& targets();

/// Returns the targets in bf16 and f16, of devices that know them. Bounds for these types:
/// tests/backend/narrow_test.cpp.
const std::vector<Target>& narrow_targets();

/// The slow backend that defines every op.
const Backend& truth();
/// The truth as a target of its own.
Target truth_target();

/// Lengths around the widths of vectors, warps and blocks, none of them convenient.
inline constexpr Tensor::Index odd_sizes[] = {1, 2, 31, 32, 33, 257};

}  // namespace periscope::testing
