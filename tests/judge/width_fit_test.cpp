#include "experiments/engine/judge/width_fit.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <random>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

const std::vector<int> widths{32, 48, 64, 96, 128, 256};

std::vector<judge::Estimate> exact(double limit, double slope, double curvature, double cubic = 0.0) {
  std::vector<judge::Estimate> points;
  for (const int width : widths) {
    const double x = 1.0 / width;
    points.push_back({limit + slope * x + curvature * x * x + cubic * x * x * x, 0.1 / std::sqrt(width)});
  }
  return points;
}

/// Returns means of `seeds` normal numbers around a parabola, with estimated standard errors.
std::vector<judge::Estimate> noisy(std::mt19937& engine, int seeds) {
  std::vector<judge::Estimate> points;
  for (const judge::Estimate& truth : exact(2.0, 3.0, -20.0)) {
    std::normal_distribution<double> normal(truth.value, truth.error * std::sqrt(seeds));
    std::vector<double> values(static_cast<std::size_t>(seeds));
    for (double& v : values) v = normal(engine);
    points.push_back(judge::mean_over_seeds(values));
  }
  return points;
}

}  // namespace

TEST_CASE("a parabola in 1/D is recovered exactly; a cubic has lack of fit") {
  const judge::WidthFit fit = judge::fit_width(widths, exact(2.0, 3.0, -20.0), 32, 1e-12);
  CHECK(fit.limit.value == approx(2.0).epsilon(1e-10));
  CHECK(fit.slope.value == approx(3.0).epsilon(1e-9));
  CHECK(fit.curvature.value == approx(-20.0).epsilon(1e-8));
  CHECK(fit.lack_of_fit == approx(1.0));
  CHECK(judge::fit_width(widths, exact(2.0, 3.0, -20.0, 1e5), 32, 1e-12).lack_of_fit < 1e-6);  // cubic
  CHECK(fit.at(0.0).error == approx(fit.limit.error));
  CHECK(fit.at(1.0 / 64).value == approx(2.0 + 3.0 / 64 - 20.0 / 4096).epsilon(1e-10));
  CHECK(fit.at(1.0 / 64).error < fit.limit.error);  // interpolation is more precise than extrapolation
}

TEST_CASE("limit and lack of fit are rejected at the nominal rate") {
  std::mt19937 engine(7);
  constexpr int runs = 4000;
  constexpr double level = 0.05;
  int limit = 0;
  int lack = 0;
  double mean_lack = 0.0;
  for (int i = 0; i < runs; ++i) {
    const judge::WidthFit fit = judge::fit_width(widths, noisy(engine, 16), 16, 1e-12);
    const double t = std::abs(fit.limit.value - 2.0) / fit.limit.error;
    limit += 2.0 * boost::math::cdf(boost::math::complement(boost::math::students_t(fit.degrees), t)) < level ? 1 : 0;
    lack += fit.lack_of_fit < level ? 1 : 0;
    mean_lack += fit.lack_of_fit / runs;
  }
  // 200 rejections are expected. The tolerance is six standard deviations (83) plus 20, because the t and F laws assume
  // known variance ratios.
  CHECK(std::abs(limit - 200) < 103);
  CHECK(std::abs(lack - 200) < 103);
  CHECK(std::abs(mean_lack - 0.5) < 0.03);  // six standard deviations of a mean of uniform numbers are 0.027
}

TEST_CASE("points without noise are fitted up to rounding") {
  std::vector<judge::Estimate> points(widths.size(), judge::Estimate{1.0, 0.0});
  const judge::WidthFit fit = judge::fit_width(widths, points, 16, 1e-7);
  CHECK(fit.limit.value == approx(1.0).epsilon(1e-9));
  CHECK(fit.limit.error > 0.0);
  CHECK(fit.limit.error < 1e-6);
}

TEST_CASE("an exact power law is recovered") {
  const std::vector<double> x{32, 64, 128, 256};
  std::vector<double> y;
  std::vector<double> error;
  for (const double v : x) {
    y.push_back(-3.0 / v);
    error.push_back(0.01 / v);
  }
  const judge::PowerLaw fit = judge::fit_power_law(x, y, error);
  CHECK(fit.exponent == approx(-1.0).epsilon(1e-6));
  CHECK(fit.amplitude == approx(-3.0).epsilon(1e-6));
  CHECK(fit.significance == approx(600.0).epsilon(1e-9));  // four points, each 300 standard errors from 0: √4 · 300
  CHECK(fit.chi_squared < 1e-7);
}

TEST_CASE("power law: chi squared rises by 1 at the ends of the error interval of the exponent") {
  // For two points, χ² = (y_1 − y_0 r)²/(e²(1 + r²)), r = 10^p. It equals 1 at r = (0.1 ± e√(1.01 − e²))/(1 − e²).
  const double e = 0.01;
  const judge::PowerLaw fit = judge::fit_power_law({1, 10}, {1.0, 0.1}, {e, e});
  CHECK(fit.exponent == approx(-1.0).epsilon(1e-6));
  const double reach = e * std::sqrt(1.01 - e * e);
  CHECK(fit.exponent_error == approx(std::log10((0.1 + reach) / (0.1 - reach)) / 2.0).epsilon(1e-6));
}

TEST_CASE("power law: values without a trend have no significance and no error of the exponent") {
  const judge::PowerLaw fit = judge::fit_power_law({1, 2, 4}, {0.1, -0.1, 0.1}, {1.0, 1.0, 1.0});
  CHECK(fit.significance < 1.0);
  CHECK(std::isnan(fit.exponent_error));
}

}  // namespace periscope
