#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/significance.h"
#include "theory/kernels/kernel.h"

namespace periscope::theory {
namespace {

/// Estimates the expected largest magnitude of independent tokens by simulation.
testing::Estimate simulated_maximum(const Vector& second_moment, int width, int draws) {
  boost::random::mt19937 engine(7);
  boost::random::normal_distribution<double> unit;
  std::vector<double> maxima;
  for (int n = 0; n < draws; ++n) {
    double largest = 0.0;
    for (const double q : second_moment) {
      for (int i = 0; i < width; ++i) largest = std::max(largest, std::abs(std::sqrt(q) * unit(engine)));
    }
    maxima.push_back(largest);
  }
  return testing::estimate(maxima);
}

TEST_CASE("the expected maximum agrees with simulation for tokens of equal and unequal size (T18)" *
          doctest::test_suite("slow")) {
  for (const int tokens : {1, 2, 7, 32}) {
    for (const int width : {1, 2, 33}) {
      const Vector q = Vector::Constant(tokens, 2.25);
      testing::check_consistent("tokens " + std::to_string(tokens) + ", width " + std::to_string(width),
                                simulated_maximum(q, width, 10'000), expected_maximum(q, width));
    }
  }
  Vector one_large(6);
  one_large << 0.1, 0.2, 9.0, 0.0, 0.3, 0.1;
  const Vector falling = Vector::LinSpaced(12, 1.0, 12.0).cwiseInverse();  // causal attention's profile
  for (const Vector& q : {one_large, falling}) {
    const testing::Estimate simulated = simulated_maximum(q, 16, 10'000);
    const double predicted = expected_maximum(q, 16);
    // The theory groups tokens of similar size, which adds an error of at most 0.5 %.
    CHECK(std::abs(predicted - simulated.mean) <=
          testing::most_standard_errors * simulated.standard_error + 0.005 * predicted);
  }
}

TEST_CASE("the expected maximum equals closed forms for one and two entries (T18)") {
  // E max|x| is √(2/π)σ for one entry and 2σ/√π for two.
  CHECK(expected_maximum(Vector::Constant(1, 4.0), 1) ==
        approx(2.0 * std::sqrt(2.0 / std::numbers::pi)).epsilon(1e-12));
  CHECK(expected_maximum(Vector::Constant(1, 4.0), 2) == approx(4.0 / std::sqrt(std::numbers::pi)).epsilon(1e-12));
  CHECK(expected_maximum(Vector::Constant(2, 4.0), 1) == expected_maximum(Vector::Constant(1, 4.0), 2));
  CHECK(expected_maximum(Vector::Zero(3), 8) == 0.0);
  CHECK(std::isinf(expected_maximum(Vector::Constant(2, INFINITY), 8)));
  const Vector q = Vector::LinSpaced(5, 0.5, 2.0);
  CHECK(expected_maximum(1e20 * q, 8) == approx(1e10 * expected_maximum(q, 8)).epsilon(1e-12));
}

TEST_CASE("the expected maximum does not depend on the order of many unequal entries (T18)") {
  boost::random::mt19937 engine(8);
  boost::random::normal_distribution<double> unit;
  for (const int entries : {8193, 20'000}) {
    Vector q(entries);
    for (double& one : q) one = std::exp(3.0 * unit(engine));
    Vector sorted = q;
    std::ranges::sort(sorted, std::greater<>());
    CHECK(expected_maximum(q, 4) == approx(expected_maximum(sorted, 4)).epsilon(1e-12));
  }
  Vector one_large = Vector::Constant(20'000, 1e-12);
  one_large(12'345) = 4.0;  // one entry dominates, so E|x| = √(2/π)σ
  CHECK(expected_maximum(one_large, 1) == approx(2.0 * std::sqrt(2.0 / std::numbers::pi)).epsilon(1e-5));
}

TEST_CASE("the leading order equals its formula and approximates the expected maximum (T18)") {
  CHECK(typical_maximum(1e6, 2.0) == approx(2.0 * 4.7660).epsilon(1e-4));
  // The maximum of |x| over n entries equals the maximum of x over 2n; its mean is 0.577 scale lengths above the mode.
  for (const double n : {1e4, 1e6}) {
    const double exact = expected_maximum(Vector::Constant(1, 1.0), static_cast<int>(n));
    CHECK(typical_maximum(2 * n, 1.0) + 0.5772 / std::sqrt(2 * std::log(2 * n)) == approx(exact).epsilon(0.01));
  }
}

}  // namespace
}  // namespace periscope::theory
