#include <limits>

#include "sim/base/error.h"
#include "sim/base/key.h"
#include "tests/support/doctest.h"

/// Which values a key's range holds.
namespace periscope::testing {
namespace {

TEST_CASE("a closed range holds its ends, an open one does not; none holds NaN or an infinity") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(at_least(2.0).contains(2.0));
  CHECK_FALSE(at_least(2.0).contains(1.999));
  CHECK_FALSE(above(2.0).contains(2.0));
  CHECK(above(2.0).contains(2.001));
  CHECK(from_to(0.0, 1.0).contains(0.0));
  CHECK(from_to(0.0, 1.0).contains(1.0));
  CHECK_FALSE(from_to(0.0, 1.0).contains(1.001));
  CHECK_FALSE(between(0.0, 1.0).contains(0.0));
  CHECK_FALSE(between(0.0, 1.0).contains(1.0));
  CHECK(between(0.0, 1.0).contains(0.5));
  for (const Range& range : {Range{}, at_least(2.0), above(2.0), from_to(0.0, 1.0), between(0.0, 1.0)}) {
    for (const double value : {infinity, -infinity, nan}) CHECK_FALSE(range.contains(value));
  }
}

TEST_CASE("a limit that a range does not hold is called above or below, one that it holds from, to or at least") {
  const auto require = [](const Range& range, double value) { require_in(range, "section", "key", value); };
  CHECK_THROWS_WITH_AS(require(between(0.0, 1000.0), 1000.0),
                       "section.key = 1000: expected a number above 0 and below 1000", ConfigError);
  CHECK_THROWS_WITH_AS(require(above(0.0), 0.0), "section.key = 0: expected a finite number above 0", ConfigError);
  CHECK_THROWS_WITH_AS(require(from_to(0.0, 1000.0), 1000.5), "section.key = 1000.5: expected a number from 0 to 1000",
                       ConfigError);
  CHECK_THROWS_WITH_AS(require(at_least(0.0), -1.0), "section.key = -1: expected a finite number of at least 0",
                       ConfigError);
}

TEST_CASE("0 for automatic is in a range that does not reach it, and nothing else is") {
  constexpr Range range{.low = 4.0, .or_zero = true};
  CHECK(range.contains(0.0));
  CHECK(range.contains(4.0));
  CHECK_FALSE(range.contains(1.0));
  CHECK_FALSE(range.contains(-1.0));
}

}  // namespace
}  // namespace periscope::testing
