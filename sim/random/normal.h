#pragma once

#include <cstdint>
#include <span>

#include "sim/spec/streams.h"

namespace periscope {

/// Writes unit_normal(word) for every word; `out` must be at least as long as `words`.
void unit_normals(std::span<const std::uint32_t> words, std::span<float> out);

/// Writes numbers first … first + out.size() − 1 of stream `key`, N(0, stddev²). Number i is stddev times unit_normal
/// of word i of the stream, computed in double and rounded to float for T = float. Any part of a stream can be
/// generated without the rest. Throws std::length_error beyond 2⁶⁴ numbers.
template <class T>
void fill_normal(StreamKey key, std::uint64_t first, double stddev, std::span<T> out);

}  // namespace periscope
