#include "sim/random/philox.h"

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace periscope {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words philox(Words counter, std::array<std::uint32_t, 2> key) {
  const r123::Philox4x32::ctr_type out =
      r123::Philox4x32()({{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
  return {out[0], out[1], out[2], out[3]};
}

TEST_CASE("Philox4x32-10: the published known answers") {
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  // digits of pi
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("an engine hands out the words of {0, block, layer, tensor}, {1, ...}, ... under the seed, in order") {
  const StreamKey key{.seed = 0x299f31d0a4093822, .layer = 5, .tensor = 6};
  PhiloxEngine engine = engine_of(key, 7);
  // 400 counters: a block of normals uses more than 256.
  for (std::uint32_t count = 0; count < 400; ++count) {
    for (const std::uint32_t word : philox({count, 7, 5, 6}, {0xa4093822, 0x299f31d0})) REQUIRE(engine() == word);
  }
}

TEST_CASE("distinct seeds, layers, tensors and blocks give distinct streams") {
  std::set<std::tuple<std::uint32_t, std::uint32_t>> starts;
  int streams = 0;
  for (const std::uint64_t seed : {0ULL, 1ULL, 2ULL, 1ULL << 32U, (1ULL << 32U) + 1}) {
    for (const std::uint32_t layer : {0U, 1U, 2U, 1000U}) {
      for (const std::uint32_t tensor :
           {0U, 1U, 2U, stream_input, stream_common_input, stream_token_ids, stream_labels}) {
        for (const std::uint64_t block : {0U, 1U, 2U}) {
          PhiloxEngine engine = engine_of({seed, layer, tensor}, block);
          const std::uint32_t first = engine();
          starts.insert({first, engine()});
          ++streams;
        }
      }
    }
  }
  // 64-bit starts of 420 streams: a chance collision has probability 5e-15.
  CHECK(starts.size() == static_cast<std::size_t>(streams));
}

TEST_CASE("a stream's length is refused where the counter would wrap") {
  CHECK_NOTHROW((void)engine_of({1, 2, 3}, (1ULL << 32U) - 1));
  CHECK_THROWS_AS((void)engine_of({1, 2, 3}, 1ULL << 32U), std::length_error);
}

}  // namespace
}  // namespace periscope
