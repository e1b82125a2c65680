#include "tests/support/compare.h"

#include <limits>
#include <vector>

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;

TEST_CASE("residual finds the entry with the largest error relative to its tolerance, at any position") {
  const Residual r = residual(Values{1.0, 2.5, 3.1}, Values{1.0, 2.0, 3.0}, Values{1.0, 1.0, 0.1});
  CHECK(r.at == 2);
  CHECK(r.worst == approx(1.0));
  CHECK((r.actual == 3.1 && r.expected == 3.0 && r.allowed == 0.1));
  const Values ones(257, 1.0);
  for (std::size_t i = 0; i < ones.size(); ++i) {
    Values actual = ones;
    actual[i] += 2e-9;
    CHECK(residual(actual, ones, 1e-9).worst > 1.0);
    CHECK(residual(actual, ones, 1e-9).at == i);
  }
}

TEST_CASE("residual handles non-finite numbers, zero and NaN tolerances, and unequal lengths") {
  struct Row {
    Values actual, expected;
    double allowed, worst;
  };
  const Row rows[] = {
      {{nan}, {nan}, 1.0, 0.0},
      {{-infinity}, {-infinity}, 1.0, 0.0},
      {{nan}, {1.0}, 1e9, infinity},
      {{1.0}, {nan}, 1e9, infinity},
      {{infinity}, {-infinity}, 1e9, infinity},
      {{1.0}, {infinity}, infinity, infinity},
      {{1.0, nan, 1.0}, {1.0, 1.0, 1.0}, 1.0, infinity},
      {{1.0}, {1.0}, 0.0, 0.0},
      {{1.0}, {1.0 + 1e-15}, 0.0, infinity},
      {{1.0}, {1.1}, nan, infinity},
      {{1.0}, {1.0, 2.0}, 1.0, infinity},
      {{}, {1.0}, 1.0, infinity},
      {{}, {}, 1.0, 0.0},
  };
  for (const Row& row : rows) {
    INFO("row.actual := ", row.actual, ", row.expected := ", row.expected);
    CHECK(residual(row.actual, row.expected, row.allowed).worst == row.worst);
  }
}

TEST_CASE("first_difference detects signs of zero, NaN payloads and last bits") {
  CHECK(first_difference(Values{1.0, 0.0}, Values{1.0, -0.0}) == 1);
  CHECK(first_difference(Values{nan}, Values{nan}) == 1);
  CHECK(first_difference(Values{nan}, Values{-nan}) == 0);
  CHECK(first_difference(Values{1.0}, Values{1.0 + 0x1p-52}) == 0);
}

}  // namespace
}  // namespace periscope::testing
