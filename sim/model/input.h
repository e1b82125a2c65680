#pragma once

#include <cstdint>
#include <span>

#include "sim/model/weights.h"

namespace periscope {

/// Gaussian input [T, D]: x_t = √m (√c z₀ + √(1−c) z_t) with m = second_moment, c = correlation, and z
/// independent standard normal vectors from the seed's input streams.
Tensor gaussian_input(const Backend& backend, const StackSpec& spec, DType dtype, std::uint64_t seed);

/// Token input [ids.size(), D]: rows of the source's embedding table.
Tensor embedded_input(const Backend& backend, const WeightSource& weights, std::span<const int> ids);

}  // namespace periscope
