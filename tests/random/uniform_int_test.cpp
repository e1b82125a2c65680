#include <cmath>
#include <vector>

#include "sim/random/philox.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"

namespace periscope {
namespace {

std::vector<int> draw(std::size_t count, int bound, StreamKey key = {1, 0, Stream::token_ids}) {
  std::vector<int> x(count);
  fill_uniform_int(key, bound, x);
  return x;
}

TEST_CASE("fill_uniform_int: numbers of a seed are the same in every release") {
  CHECK(draw(8, 1000) == std::vector<int>{954, 513, 814, 917, 960, 973, 424, 326});
  CHECK(draw(5, 1) == std::vector<int>(5, 0));
}

TEST_CASE("fill_uniform_int: numbers depend on the stream and not on the length") {
  const std::vector<int> all = draw(100, 50);
  const std::vector<int> some = draw(10, 50);
  CHECK(std::vector<int>(all.begin(), all.begin() + 10) == some);
  CHECK(draw(100, 50, {1, 0, Stream::labels}) != all);
  CHECK(draw(100, 50, {2, 0, Stream::token_ids}) != all);
}

TEST_CASE("fill_uniform_int: values are equally frequent") {
  // Detects a wrong range. The bias of a plain remainder (2^-24) is too small to be detected here.
  constexpr int bound = 257;
  constexpr std::size_t n = 257'000;
  std::vector<double> count(bound, 0.0);
  for (const int x : draw(n, bound)) {
    REQUIRE(x >= 0);
    REQUIRE(x < bound);
    count[static_cast<std::size_t>(x)] += 1.0;
  }
  const double expected = static_cast<double>(n) / bound;
  double chi_square = 0.0;
  for (const double c : count) chi_square += (c - expected) * (c - expected) / expected;
  // χ² of 256 degrees of freedom: mean 256, standard deviation √512, nearly normal.
  testing::check_consistent("chi-square", {chi_square, std::sqrt(2.0 * (bound - 1))}, bound - 1.0);
}

}  // namespace
}  // namespace periscope
