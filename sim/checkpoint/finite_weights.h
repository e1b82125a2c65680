#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/checkpoint/checkpoint.h"

namespace periscope {

/// An entry of a parameter, row-major, that is NaN or infinite.
struct NonFiniteWeight {
  ParameterId parameter;
  std::int64_t entry;
  double value;

  /// "layers.1.mlp.down.weight: entry 3 is nan".
  [[nodiscard]] std::string words() const;
};

/// Returns the first one in the order of the tensors' names. Reads every used tensor once, a few megabytes at a time,
/// and calls `after_block` with the count of numbers in each block.
[[nodiscard]] std::optional<NonFiniteWeight> find_non_finite_weight(
    const Checkpoint& checkpoint, const std::function<void(std::uint64_t)>& after_block = [](std::uint64_t) {});

}  // namespace periscope
