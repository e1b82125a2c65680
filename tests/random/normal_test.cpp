#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "sim/random/philox.h"
#include "tests/support/hypothesis.h"

namespace periscope {
namespace {

constexpr StreamKey key{.seed = 1, .layer = 2, .tensor = 3};

template <class T = double>
std::vector<T> normals(std::size_t count, StreamKey stream = key, std::uint64_t first = 0, double stddev = 1.0) {
  std::vector<T> x(count);
  fill_normal<T>(stream, first, stddev, x);
  return x;
}

double standard_normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

TEST_CASE("golden numbers: a seed means the same weights in every release") {
  const std::vector<double> golden{-0x1.28552db521e25p-3, -0x1.a05ee0b25fa51p-1, 0x1.2ac59237366f7p+0,
                                   -0x1.d204beb53454fp+0, -0x1.f4acd029515d8p-4};
  CHECK(normals(5) == golden);
  const std::vector<double> golden_block_1{-0x1.f796f2f9d7653p-2, 0x1.9b9c13b8ee9c2p-1};
  CHECK(normals(2, key, normal_block) == golden_block_1);
}

TEST_CASE("a draw from block 3 is the tail of a long draw") {
  const std::vector<double> all = normals(5 * normal_block + 17);
  const std::vector<double> tail = normals(2 * normal_block + 17, key, 3 * normal_block);
  CHECK(std::vector<double>(all.begin() + 3 * normal_block, all.end()) == tail);
}

TEST_CASE("the length of a draw does not change its numbers") {
  const std::vector<double> all = normals(2 * normal_block);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, normal_block - 1, normal_block, normal_block + 1}) {
    CHECK(normals(count) == std::vector<double>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)));
  }
}

TEST_CASE("a draw starts at a block") {
  CHECK_THROWS_AS(normals(1, key, 1), std::logic_error);
  CHECK_THROWS_AS(normals(1, key, normal_block + 1), std::logic_error);
}

TEST_CASE("f32 numbers are the f64 numbers, rounded; the standard deviation multiplies") {
  const std::vector<double> unit = normals(3000);
  const std::vector<double> wide = normals(3000, key, 0, 0.02);
  const std::vector<float> narrow = normals<float>(3000, key, 0, 0.02);
  for (std::size_t i = 0; i < unit.size(); ++i) {
    REQUIRE(wide[i] == 0.02 * unit[i]);
    REQUIRE(narrow[i] == static_cast<float>(wide[i]));
  }
}

TEST_CASE("moments of a million normal numbers") {
  constexpr double n = 1e6;
  const std::vector<double> x = normals(static_cast<std::size_t>(n));
  double m[5] = {};
  for (const double v : x) {
    for (int p = 1; p <= 4; ++p) m[p] += std::pow(v, p) / n;
  }
  // Var x^p = E x^2p − (E x^p)²: 1, 2, 15, 96.
  testing::check_consistent("mean", {m[1], std::sqrt(1 / n)}, 0.0);
  testing::check_consistent("second moment", {m[2], std::sqrt(2 / n)}, 1.0);
  testing::check_consistent("third moment", {m[3], std::sqrt(15 / n)}, 0.0);
  testing::check_consistent("fourth moment", {m[4], std::sqrt(96 / n)}, 3.0);
}

TEST_CASE("the distribution of a million normal numbers") {
  const std::vector<double> x = normals(1'000'000);
  const double limit = testing::kolmogorov_limit(x.size(), 1e-6);
  const double distance = testing::kolmogorov_distance(x, standard_normal_cdf);
  CHECK_MESSAGE(distance < limit, distance, " against ", limit);
  // The test has the power to see a standard deviation that is wrong by 2 %.
  CHECK(testing::kolmogorov_distance(normals(1'000'000, key, 0, 1.02), standard_normal_cdf) > limit);
}

TEST_CASE("neighbouring numbers, blocks, layers, tensors and seeds are uncorrelated") {
  constexpr std::size_t n = 200'000;
  const std::vector<double> x = normals(n);
  const auto correlation = [&](const std::vector<double>& y) {
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return testing::Estimate{sum / n, 1.0 / std::sqrt(n)};
  };
  std::vector<double> shifted = normals(n + 1);
  shifted.erase(shifted.begin());
  testing::check_consistent("lag 1", correlation(shifted), 0.0);
  testing::check_consistent("next block", correlation(normals(n, key, normal_block)), 0.0);
  testing::check_consistent("next layer", correlation(normals(n, {1, 3, 3})), 0.0);
  testing::check_consistent("next tensor", correlation(normals(n, {1, 2, 4})), 0.0);
  testing::check_consistent("next seed", correlation(normals(n, {2, 2, 3})), 0.0);
}

}  // namespace
}  // namespace periscope
