#include "sim/random/philox.h"

#include <boost/random/uniform_int_distribution.hpp>
#include <stdexcept>

#include "sim/random/philox_block.h"

namespace periscope {
void philox_words(StreamKey key, std::uint64_t first_counter, std::span<std::uint32_t> words) {
  if (words.size() % 4 != 0) throw std::logic_error("philox_words writes four words at a time");
  std::uint32_t* const out = words.data();
  const std::size_t blocks = words.size() / 4;
  for (std::size_t j = 0; j < blocks; ++j) {
    const PhiloxBlock b = philox_block(key, first_counter + j);
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
