#include "sim/measure/running_moments.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <initializer_list>

namespace periscope {
namespace {

RunningMoments of(std::initializer_list<double> numbers) {
  RunningMoments r;
  for (const double x : numbers) r.add(x);
  return r;
}

TEST_CASE("running moments are exact for a mean far above the spread, and NaN for too few or non-finite numbers") {
  const RunningMoments r = of({2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(r.count() == 8);
  CHECK(r.mean() == approx(5.0));
  CHECK(r.variance() == approx(32.0 / 7.0));
  CHECK(r.standard_error() == approx(std::sqrt(32.0 / 7.0 / 8.0)));
  CHECK(of({1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}).variance() == approx(30.0).epsilon(1e-12));
  CHECK(std::isnan(RunningMoments().mean()));
  CHECK(of({3}).mean() == 3.0);
  CHECK(std::isnan(of({3}).variance()));
  CHECK(std::isnan(of({3}).standard_error()));
  CHECK(of({3, 3}).standard_error() == 0.0);
  CHECK(std::isnan(of({1, NAN, 2}).mean()));
  CHECK_FALSE(std::isfinite(of({1, INFINITY, 2}).mean()));
}

}  // namespace
}  // namespace periscope
