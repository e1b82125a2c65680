#include "tests/support/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/base/processor.h"
#include "sim/cpu/levels.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;

TEST_CASE("residual finds the worst entry in units of its own tolerance") {
  const Residual r = residual(Values{1.0, 2.5, 3.1}, Values{1.0, 2.0, 3.0}, Values{1.0, 1.0, 0.1});
  CHECK(r.at == 2);
  CHECK(r.worst == doctest::Approx(1.0));
  CHECK(r.actual == 3.1);
  CHECK(r.expected == 3.0);
  CHECK(r.allowed == 0.1);
}

TEST_CASE("residual catches a planted wrong value at every position") {
  const Values expected(257, 1.0);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    Values actual = expected;
    actual[i] += 2e-9;
    const Residual r = residual(actual, expected, 1e-9);
    CHECK(r.worst > 1.0);
    CHECK(r.at == i);
  }
}

TEST_CASE("what is not finite agrees only with itself") {
  CHECK(residual(Values{nan}, Values{nan}, 1.0).worst == 0.0);
  CHECK(residual(Values{-infinity}, Values{-infinity}, 1.0).worst == 0.0);
  CHECK(residual(Values{nan}, Values{1.0}, 1e9).worst == infinity);
  CHECK(residual(Values{1.0}, Values{nan}, 1e9).worst == infinity);
  CHECK(residual(Values{infinity}, Values{-infinity}, 1e9).worst == infinity);
  CHECK(residual(Values{1.0}, Values{infinity}, infinity).worst == infinity);
  CHECK(residual(Values{1.0, nan, 1.0}, Values{1.0, 1.0, 1.0}, 1.0).at == 1);
}

TEST_CASE("a tolerance that is zero or no number allows equality only") {
  CHECK(residual(Values{1.0}, Values{1.0}, 0.0).worst == 0.0);
  CHECK(residual(Values{1.0}, Values{1.0 + 1e-15}, 0.0).worst == infinity);
  CHECK(residual(Values{1.0}, Values{1.1}, nan).worst == infinity);
}

TEST_CASE("a difference in length is a disagreement, and nothing agrees with nothing") {
  CHECK(residual(Values{1.0}, Values{1.0, 2.0}, 1.0).worst == infinity);
  CHECK(residual(Values{}, Values{1.0}, 1.0).worst == infinity);
  CHECK(residual(Values{}, Values{}, 1.0).worst == 0.0);
}

TEST_CASE("first_difference sees signs of zero, payloads and last bits") {
  CHECK(first_difference(Values{1.0, 0.0}, Values{1.0, -0.0}) == 1);
  CHECK(first_difference(Values{nan}, Values{nan}) == 1);
  CHECK(first_difference(Values{nan}, Values{-nan}) == 0);
  CHECK(first_difference(Values{1.0}, Values{1.0 + 0x1p-52}) == 0);
}

TEST_CASE("the sentence carries the numbers") {
  const std::string sentence = describe(residual(Values{0.0, 2.5}, Values{0.0, 2.0}, 0.25));
  for (const char* part : {"[1]", "2.5", "expected 2", "0.5", "0.25"}) CHECK(sentence.find(part) != std::string::npos);
}

TEST_CASE("tolerances tell a rounding from a planted error") {
  // One ulp in a dot product of 33 terms passes; one term left out does not.
  const std::vector<double> terms(33, 1.0 / 3.0);
  double sum = 0.0;
  for (const double x : terms) sum += x;
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double allowed = dot_error(33, dtype) * 11.0;
    const double ulp = 11.0 * 2.0 * unit_roundoff(dtype);
    CHECK(residual(Values{sum + ulp}, Values{11.0}, allowed).worst < 1.0);
    CHECK(residual(Values{sum - terms[0]}, Values{11.0}, allowed).worst > 1000.0);
  }
  CHECK(rounding_bound(1, DType::f64) > 0x1p-53);
  CHECK(rounding_bound(1, DType::f32) > 0x1p-24);
  CHECK(rounding_bound(1, DType::f32) < 0x1p-23);
}

TEST_CASE("targets: the CPU in both dtypes at every level that it has, the truth never") {
  int cpu = 0;
  for (const Target& target : targets()) {
    CHECK(target.backend->name() != "reference");
    CHECK(target.backend->supports(target.dtype));
    if (target.backend->name() == "cpu") ++cpu;
  }
  const auto levels =
      std::ranges::count_if(cpu_levels(), [](const CpuLevel& level) { return level.processor <= processor_level(); });
  CHECK(cpu == 2 * levels);
  CHECK(targets()[0].name() == fmt::format("cpu {} f64", cpu_levels().front().name));
  CHECK(truth().name() == "reference");
}

TEST_CASE("a twin holds the target's rounded values") {
  for (const Target& target : targets()) {
    const Twin twin = twin_of(target, 1, 2, Values{0.1, 1.0 + 0x1p-40});
    const double tenth = target.dtype == DType::f64 ? 0.1 : static_cast<double>(0.1F);
    const double one = target.dtype == DType::f64 ? 1.0 + 0x1p-40 : 1.0;
    CHECK(truth().to_host(twin.truth) == Values{tenth, one});
    CHECK(target.backend->to_host(twin.here) == Values{tenth, one});
    CHECK(twin.here.dtype() == target.dtype);
  }
}

}  // namespace
}  // namespace periscope::testing
