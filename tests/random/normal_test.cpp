#include "sim/random/normal.h"

#include <Random123/philox.h>

#include <stdexcept>
#include <vector>

#include "sim/random/unit_normal.h"
#include "tests/random/portable_normal.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

constexpr StreamKey normal_key{.seed = 0x500000001, .layer = 2, .stream = Stream{3}};

template <class T = double>
std::vector<T> normals(std::size_t count, std::uint64_t first = 0, double stddev = 1.0) {
  std::vector<T> x(count);
  fill_normal<T>(normal_key, first, stddev, x);
  return x;
}

/// Returns number i of the stream by the definition in the header, with Random123's Philox.
double defined(std::uint64_t i) {
  const std::uint64_t counter = i / 4;
  const auto words = r123::Philox4x32()(
      {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U), 2, 3}}, {{1, 5}});
  return static_cast<double>(unit_normal(words[i % 4]));
}

TEST_CASE("fill_normal: numbers of a seed are the same in every release") {
  CHECK(normals(5) == std::vector<double>{0x1.dae4bap-2, -0x1.72c48ep-2, -0x1.60de4cp-5, 0x1.d50728p+0, -0x1.9cbep-4});
  CHECK(normals(2, (std::uint64_t{1} << 40U) + 3) == std::vector<double>{-0x1.15d14ep-1, 0x1.034fdp-3});
}

TEST_CASE("fill_normal: any part of a stream follows the definition, with and without vector instructions") {
  const std::uint64_t carry = std::uint64_t{1} << 34U;  // the low word of the counter overflows here
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{1} << 20U, carry - 300, ~std::uint64_t{0} - 2000}) {
    for (std::uint64_t first = start; first < start + 9; ++first) {
      for (const std::size_t count : {0, 1, 2, 3, 4, 5, 15, 17, 33, 253, 254, 255, 256, 257, 259, 511, 513, 1031}) {
        const std::vector<double> x = normals(count, first);
        std::vector<double> portable(count);
        testing::portable_normals(normal_key.seed, normal_key.layer, 3, first, 1.0, portable);
        for (std::size_t i = 0; i < count; ++i) REQUIRE(x[i] == defined(first + i));
        REQUIRE(x == portable);
      }
    }
  }
}

TEST_CASE("fill_normal: positions beyond 64 bits throw") {
  constexpr std::uint64_t last = ~std::uint64_t{0};
  CHECK_NOTHROW((void)normals(5, last - 5));
  CHECK_THROWS_AS((void)normals(2, last), std::length_error);
  CHECK_THROWS_AS((void)normals(1000, last - 5), std::length_error);
}

TEST_CASE("fill_normal: f64 numbers are unit_normal times the deviation; f32 numbers are rounded f64 numbers") {
  const std::vector<double> wide = normals(3000, 5, 0.02);
  const std::vector<float> narrow = normals<float>(3000, 5, 0.02);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    REQUIRE(wide[i] == 0.02 * defined(5 + i));
    REQUIRE(narrow[i] == static_cast<float>(wide[i]));
  }
}

}  // namespace
}  // namespace periscope
