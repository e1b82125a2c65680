#pragma once

#include <Random123/conventional/Engine.hpp>
#include <Random123/philox.h>

#include <cstdint>
#include <span>

#include "sim/random/stream_key.h"

namespace periscope {

using PhiloxEngine = r123::Engine<r123::Philox4x32>;

/// Numbers come in blocks of this many, each from an engine of its own, so that any block can be drawn
/// by any thread, or again, without the blocks before it.
inline constexpr std::uint64_t normal_block = 1024;

/// The engine of block `block` of stream `key`. Philox4x32-10 (Salmon et al. 2011) with the seed as its
/// key and the counter {0, block, layer, tensor}: the engine itself counts in the first word.
PhiloxEngine engine_of(StreamKey key, std::uint64_t block);

/// Fills `out` with numbers first … first+out.size()−1 of the stream: N(0, stddev²), drawn in double by
/// Boost's ziggurat and then rounded to T. `first` must be a multiple of normal_block.
template <class T>
void fill_normal(StreamKey key, std::uint64_t first, double stddev, std::span<T> out);

/// `out.size()` whole numbers, uniform on 0 … bound−1.
void fill_uniform_int(StreamKey key, int bound, std::span<int> out);

}  // namespace periscope
