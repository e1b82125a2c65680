#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/checkpoint/checkpoint.h"

namespace periscope {

using RowFilter = std::function<bool(const ParameterId& id, std::int64_t row)>;

/// Returns the first NaN or infinite entry in the order of tensor names, such as "model.layers.1.mlp.down_proj.weight:
/// entry 3 is nan"; nullopt if all are finite. Skips rows for which `counts` is false. Reads every used tensor once, in
/// blocks, and calls `after_block` with the size of every block.
[[nodiscard]] std::optional<std::string> find_non_finite_weight(
    const Checkpoint& checkpoint, const RowFilter& counts = {},
    const std::function<void(std::uint64_t)>& after_block = [](std::uint64_t) {});

}  // namespace periscope
