#pragma once

#include <cstdint>
#include <span>

#include "sim/spec/streams.h"

namespace periscope {

/// unit_normal of every word; `out` is at least as long.
void unit_normals(std::span<const std::uint32_t> words, std::span<float> out);

/// Numbers first … first + out.size() − 1 of stream `key`, N(0, stddev²): number i is stddev · unit_normal(word i). The
/// product of double and binary32 is rounded once to double; for T = float that double is rounded once more, so that
/// the numbers of a narrow type are always those of double, rounded. Any part of a stream can be drawn without the
/// rest. A stream has 2⁶⁴ numbers: throws std::length_error beyond.
template <class T>
void fill_normal(StreamKey key, std::uint64_t first, double stddev, std::span<T> out);

}  // namespace periscope
