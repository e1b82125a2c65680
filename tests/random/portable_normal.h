#pragma once

#include <cstdint>
#include <span>

namespace periscope::testing {

/// sim/random compiled for the baseline processor (portable_normal.cpp): no wide vectors, no FMA instructions.
void portable_unit_normals(std::span<const std::uint32_t> words, std::span<float> out);
void portable_normals(std::uint64_t seed, std::uint32_t layer, std::uint32_t stream, std::uint64_t first, double stddev,
                      std::span<double> out);

}  // namespace periscope::testing
