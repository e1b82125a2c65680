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

TEST_CASE("residual: the worst entry in units of its own tolerance, at any position") {
  const Residual r = residual(Values{1.0, 2.5, 3.1}, Values{1.0, 2.0, 3.0}, Values{1.0, 1.0, 0.1});
  CHECK(r.at == 2);
  CHECK(r.worst == doctest::Approx(1.0));
  CHECK(r.actual == 3.1);
  CHECK(r.expected == 3.0);
  CHECK(r.allowed == 0.1);
  const Values ones(257, 1.0);
  for (std::size_t i = 0; i < ones.size(); ++i) {
    Values actual = ones;
    actual[i] += 2e-9;
    CHECK(residual(actual, ones, 1e-9).worst > 1.0);
    CHECK(residual(actual, ones, 1e-9).at == i);
  }
}

TEST_CASE("residual: NaN and infinities agree only with themselves") {
  CHECK(residual(Values{nan}, Values{nan}, 1.0).worst == 0.0);
  CHECK(residual(Values{-infinity}, Values{-infinity}, 1.0).worst == 0.0);
  CHECK(residual(Values{nan}, Values{1.0}, 1e9).worst == infinity);
  CHECK(residual(Values{1.0}, Values{nan}, 1e9).worst == infinity);
  CHECK(residual(Values{infinity}, Values{-infinity}, 1e9).worst == infinity);
  CHECK(residual(Values{1.0}, Values{infinity}, infinity).worst == infinity);
  CHECK(residual(Values{1.0, nan, 1.0}, Values{1.0, 1.0, 1.0}, 1.0).at == 1);
}

TEST_CASE("residual: a tolerance of zero or NaN allows equality only") {
  CHECK(residual(Values{1.0}, Values{1.0}, 0.0).worst == 0.0);
  CHECK(residual(Values{1.0}, Values{1.0 + 1e-15}, 0.0).worst == infinity);
  CHECK(residual(Values{1.0}, Values{1.1}, nan).worst == infinity);
}

TEST_CASE("residual: different lengths disagree, empty vectors agree") {
  CHECK(residual(Values{1.0}, Values{1.0, 2.0}, 1.0).worst == infinity);
  CHECK(residual(Values{}, Values{1.0}, 1.0).worst == infinity);
  CHECK(residual(Values{}, Values{}, 1.0).worst == 0.0);
}

TEST_CASE("first_difference: signs of zero, NaN payloads and last bits") {
  CHECK(first_difference(Values{1.0, 0.0}, Values{1.0, -0.0}) == 1);
  CHECK(first_difference(Values{nan}, Values{nan}) == 1);
  CHECK(first_difference(Values{nan}, Values{-nan}) == 0);
  CHECK(first_difference(Values{1.0}, Values{1.0 + 0x1p-52}) == 0);
}

TEST_CASE("tolerances accept a rounding error and reject a missing term") {
  // A dot product of 33 terms: one ulp passes, one missing term fails.
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

TEST_CASE("targets: the CPU in both dtypes at every supported level, without the reference") {
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

TEST_CASE("twin: the reference copy has the target's rounded values") {
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
