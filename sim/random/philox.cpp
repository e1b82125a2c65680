#include "sim/random/philox.h"

#include <boost/random/uniform_int_distribution.hpp>
#include <stdexcept>

namespace periscope {
namespace {

/// The four words of a counter, each in the low half of 64 bits; the high halves hold what is left of products.
/// That is the shape in which compilers turn a loop over counters into vector instructions.
struct Block {
  std::uint64_t x0, x1, x2, x3;
};

/// The block after `rounds` more rounds. Compilers vectorise a loop over calls only if all of them are inlined.
template <int rounds>
[[gnu::always_inline]] inline Block after_rounds(Block b, std::uint32_t key0, std::uint32_t key1) {
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

}  // namespace

void philox_words(StreamKey key, std::uint64_t first_counter, std::span<std::uint32_t> words) {
  if (words.size() % 4 != 0) throw std::logic_error("philox_words writes four words at a time");
  const auto layer = key.layer;
  const auto stream = static_cast<std::uint32_t>(key.stream);
  const auto key0 = static_cast<std::uint32_t>(key.seed);
  const auto key1 = static_cast<std::uint32_t>(key.seed >> 32U);
  std::uint32_t* const out = words.data();
  const std::size_t blocks = words.size() / 4;
  for (std::size_t j = 0; j < blocks; ++j) {
    const std::uint64_t counter = first_counter + j;
    const Block b = after_rounds<10>({counter & 0xffffffff, counter >> 32U, layer, stream}, key0, key1);
    out[4 * j] = static_cast<std::uint32_t>(b.x0);
    out[4 * j + 1] = static_cast<std::uint32_t>(b.x1);
    out[4 * j + 2] = static_cast<std::uint32_t>(b.x2);
    out[4 * j + 3] = static_cast<std::uint32_t>(b.x3);
  }
}

void fill_uniform_int(StreamKey key, int bound, std::span<int> out) {
  PhiloxEngine engine(key);
  boost::random::uniform_int_distribution<int> uniform(0, bound - 1);
  for (int& value : out) value = uniform(engine);
}

}  // namespace periscope
