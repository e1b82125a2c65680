#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/core/backend.h"

namespace periscope::testing {

/// A backend and a dtype to test.
struct Target {
  std::shared_ptr<const Backend> backend;
  DType dtype;
  std::string instructions = {};  ///< instruction-set level of the CPU backend
  [[nodiscard]] std::string name() const;
};

/// Available backends except the reference, in f64 and f32: the CPU backend at every level (sim/cpu/levels.h), the CUDA
/// backend on the host, and on the GPU if there is one.
const std::vector<Target>& targets();

/// Returns the backends that support bf16 and f16, in these dtypes.
const std::vector<Target>& narrow_targets();

std::vector<Target> targets_of_every_dtype();

/// The reference backend, which defines every op.
const Backend& truth();
Target truth_target();
std::vector<Target> targets_and_truth();

/// Lengths near the widths of SIMD vectors, warps and thread blocks.
inline constexpr Tensor::Index odd_sizes[] = {1, 2, 31, 32, 33, 257};

}  // namespace periscope::testing
