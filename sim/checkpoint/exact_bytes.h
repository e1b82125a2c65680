#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sim/checkpoint/safetensors_type.h"

namespace periscope {

/// The little-endian elements of a floating-point type up to f8_e4m3 that are these numbers, or nothing if the type
/// does not have one of them. Any NaN stands for any other.
[[nodiscard]] std::optional<std::vector<std::byte>> exact_bytes(SafetensorsType type, std::span<const double> values);

}  // namespace periscope
