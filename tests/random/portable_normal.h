#pragma once

#include <cstdint>
#include <span>

namespace periscope::testing {

/// sim/random compiled once more, for any machine (portable_normal.cpp): no -march, so neither vectors wider than the
/// smallest nor an instruction for fma.
void portable_unit_normals(std::span<const std::uint32_t> words, std::span<float> out);
void portable_normals(std::uint64_t seed, std::uint32_t layer, std::uint32_t stream, std::uint64_t first, double stddev,
                      std::span<double> out);

}  // namespace periscope::testing
