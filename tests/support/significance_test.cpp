#include "tests/support/significance.h"

#include <cmath>
#include <vector>

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

TEST_CASE("estimates and z-scores equal hand-computed values; a planted shift and NaN are rejected") {
  const Estimate e = estimate(std::vector<double>{1.0, 2.0, 3.0, 4.0});
  CHECK(e.mean == 2.5);
  CHECK(e.standard_error == approx(std::sqrt(5.0 / 3.0 / 4.0)).epsilon(1e-14));
  CHECK(z_score(Estimate{1.0, 0.1}, 0.8) == approx(2.0));
  CHECK(z_score(Estimate{1.0, 0.3}, Estimate{2.0, 0.4}) == approx(-2.0));
  CHECK(z_score(Estimate{1.0, 0.0}, 1.0) == 0.0);
  CHECK(std::isinf(z_score(Estimate{1.0, 0.0}, 1.1)));
  CHECK(std::abs(z_score(Estimate{1.0, 0.1}, 1.51)) > most_standard_errors);
  CHECK(std::abs(z_score(Estimate{1.0, 0.1}, 1.49)) < most_standard_errors);
  CHECK_FALSE(std::abs(z_score(Estimate{NAN, 0.1}, 1.0)) <= most_standard_errors);
  CHECK_FALSE(std::abs(z_score(Estimate{1.0, NAN}, 0.9)) <= most_standard_errors);
}

TEST_CASE("Kolmogorov distance equals a known value, its limit a published quantile; a shift is rejected") {
  const auto uniform = [](double x) { return std::fmin(std::fmax(x, 0.0), 1.0); };
  const auto shifted_quantiles = [](double shift) {  // (i + ½)/1000 + shift
    std::vector<double> x;
    for (int i = 0; i < 1000; ++i) x.push_back((i + 0.5) / 1000 + shift);
    return x;
  };
  CHECK(kolmogorov_distance({0.5}, uniform) == approx(0.5));
  CHECK(kolmogorov_distance({0.75, 0.25}, uniform) == approx(0.25));
  CHECK(kolmogorov_distance(shifted_quantiles(0.0), uniform) == approx(0.0005));
  CHECK(kolmogorov_limit(10'000, 0.01) == approx(0.01628).epsilon(1e-3));  // 1.628/√n
  const double limit = kolmogorov_limit(1000, 1e-6);
  CHECK(kolmogorov_distance(shifted_quantiles(1.1 * limit), uniform) > limit);
  CHECK(kolmogorov_distance(shifted_quantiles(0.9 * limit), uniform) < limit);
}

}  // namespace
}  // namespace periscope::testing
