#include "sim/random/philox.h"

#include <boost/random/uniform_int_distribution.hpp>
#include <cstring>
#include <stdexcept>

#include "sim/random/philox_block.h"
#include "sim/random/philox_lanes.h"

namespace periscope {
namespace {

/// Writes the four words of one counter.
void write(const PhiloxBlock<PhiloxWord>& b, std::uint32_t* out) {
  out[0] = static_cast<std::uint32_t>(b.x0);
  out[1] = static_cast<std::uint32_t>(b.x1);
  out[2] = static_cast<std::uint32_t>(b.x2);
  out[3] = static_cast<std::uint32_t>(b.x3);
}

#if defined(PERISCOPE_PHILOX_LANES)
/// Writes the words of PhiloxLanes::count consecutive counters.
void write(const PhiloxBlock<PhiloxLanes>& b, std::uint32_t* out) {
  const PhiloxLanes::type first = (b.x0 & 0xffffffff) | (b.x1 << 32U);
  const PhiloxLanes::type second = (b.x2 & 0xffffffff) | (b.x3 << 32U);
  const PhiloxLanes::type both[] = {PhiloxLanes::lower(first, second), PhiloxLanes::upper(first, second)};
  std::memcpy(out, both, sizeof both);
}
#endif

}  // namespace

void philox_words(StreamKey key, std::uint64_t first_counter, std::span<std::uint32_t> words) {
  if (words.size() % 4 != 0) throw std::logic_error("philox_words: expected a multiple of 4 words");
  std::uint32_t* const out = words.data();
  const std::size_t blocks = words.size() / 4;
  std::size_t j = 0;
#if defined(PERISCOPE_PHILOX_LANES)
  // Two independent vectors hide the latency of multiplications, since each round depends on the previous one.
  constexpr std::size_t lanes = PhiloxLanes::count;
  for (; j + 2 * lanes <= blocks; j += 2 * lanes) {
    const auto a = philox_block<PhiloxLanes>(key, PhiloxLanes::from(first_counter + j));
    const auto b = philox_block<PhiloxLanes>(key, PhiloxLanes::from(first_counter + j + lanes));
    write(a, out + 4 * j);
    write(b, out + 4 * (j + lanes));
  }
#endif
  for (; j < blocks; ++j) write(philox_block(key, first_counter + j), out + 4 * j);
}

void fill_uniform_int(StreamKey key, int bound, std::span<int> out) {
  PhiloxEngine engine(key);
  boost::random::uniform_int_distribution<int> uniform(0, bound - 1);
  for (int& value : out) value = uniform(engine);
}

}  // namespace periscope
