#include <limits>

#include "sim/base/key.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

TEST_CASE("closed ranges contain their limits, open ranges do not; no range contains NaN or infinity") {
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

TEST_CASE("or_zero adds only the value 0 to a range") {
  constexpr Range range{.low = 4.0, .or_zero = true};
  CHECK(range.contains(0.0));
  CHECK(range.contains(4.0));
  CHECK_FALSE(range.contains(1.0));
  CHECK_FALSE(range.contains(-1.0));
}

}  // namespace
}  // namespace periscope::testing
