#pragma once

#include <cstdint>

#include "sim/spec/streams.h"

/// One block of Philox4x32-10, shared by host and device code.
namespace periscope {

/// Arithmetic for one counter; PhiloxLanes (philox_lanes.h) processes several counters in one vector.
struct PhiloxWord {
  using type = std::uint64_t;
  /// The 64-bit product of the low half of a with b.
  static constexpr type times(type a, std::uint32_t b) { return (a & 0xffffffff) * b; }
};

/// The four words of a counter, each in the low half of 64 bits; the high halves are undefined.
template <class Word>
struct PhiloxBlock {
  typename Word::type x0, x1, x2, x3;
};

/// Applies `rounds` Philox rounds to a block.
template <int rounds, class Word>
[[gnu::always_inline]] constexpr PhiloxBlock<Word> after_rounds(PhiloxBlock<Word> b, std::uint32_t key0,
                                                                std::uint32_t key1) {
  if constexpr (rounds == 0) {
    return b;
  } else {
    const typename Word::type p = Word::times(b.x0, 0xD2511F53);
    const typename Word::type q = Word::times(b.x2, 0xCD9E8D57);
    return after_rounds<rounds - 1, Word>({(q >> 32U) ^ b.x1 ^ key0, q, (p >> 32U) ^ b.x3 ^ key1, p}, key0 + 0x9E3779B9,
                                          key1 + 0xBB67AE85);
  }
}

/// Returns words 4·counter … 4·counter + 3 of the stream `key`, in the low halves of the block.
template <class Word = PhiloxWord>
[[gnu::always_inline]] constexpr PhiloxBlock<Word> philox_block(StreamKey key, typename Word::type counter) {
  const typename Word::type zero = counter ^ counter;
  return after_rounds<10, Word>(
      {counter & 0xffffffff, counter >> 32U, zero + key.layer, zero + static_cast<std::uint32_t>(key.stream)},
      static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32U));
}

}  // namespace periscope
