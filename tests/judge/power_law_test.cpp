#include "experiments/engine/judge/width_fit.h"

#include <cmath>

#include "tests/support/doctest.h"

namespace periscope {

TEST_CASE("an exact power law is recovered") {
  const std::vector<double> x{32, 64, 128, 256};
  std::vector<double> y;
  std::vector<double> error;
  for (const double v : x) {
    y.push_back(-3.0 / v);
    error.push_back(0.01 / v);
  }
  const judge::PowerLaw fit = judge::fit_power_law(x, y, error);
  CHECK(fit.exponent == doctest::Approx(-1.0).epsilon(1e-6));
  CHECK(fit.amplitude == doctest::Approx(-3.0).epsilon(1e-6));
  CHECK(fit.significance == doctest::Approx(600.0).epsilon(1e-9));  // four points of 300 standard errors each
  CHECK(fit.chi_squared < 1e-7);
}

TEST_CASE("the error of the exponent is that of a line in logarithms if the noise is small") {
  // Relative errors r at ln x = 0, ln 2, ln 4: the slope of a fitted line has error r/(√2 ln 2).
  const std::vector<double> x{1, 2, 4};
  const judge::PowerLaw fit = judge::fit_power_law(x, {1.0, 0.5, 0.25}, {0.02, 0.01, 0.005});
  CHECK(fit.exponent_error == doctest::Approx(0.02 / (std::sqrt(2.0) * std::log(2.0))).epsilon(1e-3));
}

TEST_CASE("chi squared rises by 1 at the ends of the error interval of the exponent") {
  // Of two points χ² = (y_1 − y_0 r)²/(e²(1 + r²)), r = 10^p: it is 1 at r = (0.1 ± e√(1.01 − e²))/(1 − e²).
  const double e = 0.01;
  const judge::PowerLaw fit = judge::fit_power_law({1, 10}, {1.0, 0.1}, {e, e});
  CHECK(fit.exponent == doctest::Approx(-1.0).epsilon(1e-6));
  const double reach = e * std::sqrt(1.01 - e * e);
  CHECK(fit.exponent_error == doctest::Approx(std::log10((0.1 + reach) / (0.1 - reach)) / 2.0).epsilon(1e-6));
}

TEST_CASE("values without a trend have no significance and no error of the exponent") {
  const judge::PowerLaw fit = judge::fit_power_law({1, 2, 4}, {0.1, -0.1, 0.1}, {1.0, 1.0, 1.0});
  CHECK(fit.significance < 1.0);
  CHECK(std::isnan(fit.exponent_error));
}

}  // namespace periscope
