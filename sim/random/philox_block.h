#pragma once

#include <cstdint>

#include "sim/spec/streams.h"

/// One block of Philox4x32-10, as functions that host and device code share.
namespace periscope {

/// The four words of a counter, each in the low half of 64 bits; the high halves hold what is left of products.
/// That is the shape in which compilers turn a loop over counters into vector instructions.
struct PhiloxBlock {
  std::uint64_t x0, x1, x2, x3;
};

/// The block after `rounds` more rounds. Compilers vectorise a loop over calls only if all of them are inlined.
template <int rounds>
[[gnu::always_inline]] constexpr PhiloxBlock after_rounds(PhiloxBlock b, std::uint32_t key0, std::uint32_t key1) {
  if constexpr (rounds == 0) {
    return b;
  } else {
    constexpr std::uint64_t low = 0xffffffff;
    const std::uint64_t p = 0xD2511F53 * (b.x0 & low);
    const std::uint64_t q = 0xCD9E8D57 * (b.x2 & low);
    return after_rounds<rounds - 1>({(q >> 32U) ^ b.x1 ^ key0, q, (p >> 32U) ^ b.x3 ^ key1, p}, key0 + 0x9E3779B9,
                                    key1 + 0xBB67AE85);
  }
}

/// The low halves are words 4·counter … 4·counter + 3 of the stream `key`.
[[gnu::always_inline]] constexpr PhiloxBlock philox_block(StreamKey key, std::uint64_t counter) {
  return after_rounds<10>({counter & 0xffffffff, counter >> 32U, key.layer, static_cast<std::uint32_t>(key.stream)},
                          static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32U));
}

}  // namespace periscope
