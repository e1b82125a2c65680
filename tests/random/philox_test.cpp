#include "sim/random/philox.h"

#include <Random123/philox.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

using Words = std::array<std::uint32_t, 4>;

/// The oracle: Philox of Random123.
Words philox(Words counter, std::array<std::uint32_t, 2> key) {
  const r123::Philox4x32::ctr_type out =
      r123::Philox4x32()({{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
  return {out[0], out[1], out[2], out[3]};
}

constexpr StreamKey philox_key{.seed = 0x299f31d0a4093822, .layer = 5, .stream = Stream{6}};

Words oracle(std::uint64_t counter) {
  return philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U), 5, 6},
                {0xa4093822, 0x299f31d0});
}

TEST_CASE("the oracle reproduces the published test vectors of Philox4x32-10") {
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  // digits of pi
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

// Distinct seeds, layers and streams give distinct words because they are part of the key or the counter.
TEST_CASE("philox_words: Philox of counters {low, high, layer, stream} with the seed as key, any length and start") {
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
