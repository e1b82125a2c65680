#include "sim/random/unit_normal.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <numbers>
#include <vector>

#include "sim/random/normal.h"
#include "tests/random/portable_normal.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

constexpr std::uint32_t largest = 0x7fffffff;

std::vector<float> mapped(const std::vector<std::uint32_t>& words) {
  std::vector<float> z(words.size());
  unit_normals(words, z);
  return z;
}

/// Φ⁻¹(½ + ½x), x = (m + ½)/2³¹, by Boost.Math in double.
double exact(std::uint32_t m) {
  const double x = (m + 0.5) * 0x1p-31;
  const double rest = (largest - m + 0.5) * 0x1p-31;
  return std::numbers::sqrt2 * (x < 0.5 ? boost::math::erf_inv(x) : boost::math::erfc_inv(rest));
}

/// Returns the smallest and largest magnitudes m, and `each` magnitudes per octave of m and of largest − m.
std::vector<std::uint32_t> magnitudes(std::uint32_t each) {
  std::vector<std::uint32_t> m{0, 1, largest - 1, largest};
  for (int octave = 1; octave < 31; ++octave) {
    const std::uint32_t start = 1U << octave;
    const std::uint32_t step = std::max(1U, start / each);
    for (std::uint32_t i = start; i < 2 * start; i += step) m.insert(m.end(), {i, largest - i});
  }
  return m;
}

TEST_CASE("unit_normal: the number of a word is the same on every device and in every release") {
  CHECK(mapped({0, 1, 0x12345678, 0x40000000, 0x7fffffff}) ==
        std::vector<float>{0x1.40d932p-32F, 0x1.e145ccp-31F, 0x1.6f0258p-3F, 0x1.5956b8p-1F, 0x1.95a118p+2F});
}

TEST_CASE("unit_normal: same bits in every release, with vector instructions, without them, and in a portable build") {
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < 1'000'003; ++i) words.push_back(i * 2654435761U);
  for (const std::uint32_t m : magnitudes(1000)) words.insert(words.end(), {m, ~m});
  const std::vector<float> z = mapped(words);
  std::vector<float> portable(words.size());
  testing::portable_unit_normals(words, portable);
  std::uint64_t hash = 0;  // covers all numbers, so it changes with the last bit of any coefficient
  for (std::size_t i = 0; i < words.size(); ++i) {
    REQUIRE(z[i] == unit_normal(words[i]));
    REQUIRE(z[i] == portable[i]);
    hash = (hash ^ std::bit_cast<std::uint32_t>(z[i])) * 0x100000001b3U;
  }
  CHECK(hash == 0x297d2807c6e7a860U);
}

// normal_moments.cpp checks moments and monotonicity over all words.
TEST_CASE("unit_normal: relative error below 2.2e-7 of the inverse normal distribution in every octave") {
  double error = 0.0;
  for (const std::uint32_t m : magnitudes(10'000)) {
    error = std::max(error, std::abs(static_cast<double>(unit_normal(m)) / exact(m) - 1.0));
  }
  CHECK(error < 2.2e-7);
}

}  // namespace
}  // namespace periscope
