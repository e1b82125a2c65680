#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/checkpoint/checkpoint.h"

namespace periscope {

/// Says whether a row of a parameter counts.
using RowFilter = std::function<bool(const ParameterId& id, std::int64_t row)>;

/// Returns the first entry that is NaN or infinite, in the order of the tensors' names, by its name and place in the
/// files: "model.layers.1.mlp.down_proj.weight: entry 3 is nan"; nullopt if all are finite. Rows that `counts` leaves
/// out are passed over. Reads every used tensor once, a few megabytes at a time, and calls `after_block` with the count
/// of numbers in each block.
[[nodiscard]] std::optional<std::string> find_non_finite_weight(
    const Checkpoint& checkpoint, const RowFilter& counts = {},
    const std::function<void(std::uint64_t)>& after_block = [](std::uint64_t) {});

}  // namespace periscope
