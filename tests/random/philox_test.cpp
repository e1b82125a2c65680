#include "sim/random/philox.h"

#include <Random123/philox.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

using Words = std::array<std::uint32_t, 4>;

constexpr StreamKey philox_key{.seed = 0x299f31d0a4093822, .layer = 5, .stream = Stream{6}};

/// Random123's Philox.
Words oracle(std::uint64_t counter) {
  const auto out =
      r123::Philox4x32()({{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U), 5, 6}},
                         {{0xa4093822, 0x299f31d0}});
  return {out[0], out[1], out[2], out[3]};
}

// Distinct seeds, layers and streams give distinct words because they are part of the key or the counter.
TEST_CASE("philox_words is Philox of counters {low, high, layer, stream} and key {seed}, for any length and start") {
  const std::uint64_t carry = (std::uint64_t{1} << 32U) - 20;  // the low half of the counter overflows
  for (const std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, carry, ~std::uint64_t{0} / 4 - 40}) {
    for (std::size_t blocks = 0; blocks < 40; ++blocks) {
      std::vector<std::uint32_t> words(4 * blocks);
      philox_words(philox_key, first, words);
      for (std::size_t i = 0; i < words.size(); ++i) REQUIRE(words[i] == oracle(first + i / 4)[i % 4]);
    }
  }
  std::vector<std::uint32_t> odd(5);
  CHECK_THROWS_AS(philox_words(philox_key, 0, odd), std::logic_error);
}

TEST_CASE("PhiloxEngine returns the words of its stream in order") {
  PhiloxEngine engine(philox_key);
  for (std::uint64_t counter = 0; counter < 400; ++counter) {
    for (const std::uint32_t word : oracle(counter)) REQUIRE(engine() == word);
  }
}

}  // namespace
}  // namespace periscope
