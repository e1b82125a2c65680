#pragma once

#include <cstdint>

namespace periscope {

/// Names one stream of random numbers. Distinct keys give independent streams: layer and tensor are
/// part of the generator's counter, the seed is its key.
struct StreamKey {
  std::uint64_t seed;
  std::uint32_t layer;
  std::uint32_t tensor;  ///< a Weight's number, or one of those below
};

/// Streams that are not weights.
inline constexpr std::uint32_t stream_input = 100;
inline constexpr std::uint32_t stream_common_input = 101;
inline constexpr std::uint32_t stream_token_ids = 102;
inline constexpr std::uint32_t stream_labels = 103;

}  // namespace periscope
