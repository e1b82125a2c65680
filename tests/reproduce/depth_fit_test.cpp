#include "experiments/reproduce/depth_fit.h"

#include <cmath>
#include <functional>

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

using reproduce::fit_growth;
using reproduce::GrowthLaw;

/// 25 depths with errors of a percent, of a fixed pattern without a trend.
std::vector<double> sampled(const std::function<double(double)>& law) {
  std::vector<double> values;
  for (int d = 0; d < 25; ++d) values.push_back(law(d) * std::exp(0.01 * std::sin(2.4 * d * d)));
  return values;
}

GrowthLaw best(const std::function<double(double)>& law) { return best_law(fit_growth(sampled(law))); }

TEST_CASE("each law is the best for its own values") {
  CHECK(best([](double d) { return 1.0 + 0.7 * d; }) == GrowthLaw::linear);
  CHECK(best([](double d) { return 1.0 + 0.7 * d + 0.2 * d * d; }) == GrowthLaw::quadratic);
  CHECK(best([](double d) { return 0.4 * std::exp(0.3 * d); }) == GrowthLaw::exponential);
  // A base of 1.05 over 25 depths is bent so little that only the criterion's count of parameters tells it.
  CHECK(best([](double d) { return std::exp(0.05 * d); }) == GrowthLaw::exponential);
}

TEST_CASE("the laws' parameters are found") {
  const auto fits = fit_growth(sampled([](double d) { return 2.0 + 0.5 * d + 0.1 * d * d; }));
  CHECK(fits[1].parameters[0] == doctest::Approx(2.0).epsilon(0.02));
  CHECK(fits[1].parameters[1] == doctest::Approx(0.5).epsilon(0.05));
  CHECK(fits[1].parameters[2] == doctest::Approx(0.1).epsilon(0.02));
  CHECK(fits[1].rms_residual == doctest::Approx(0.007).epsilon(0.3));
  const auto exponential = fit_growth(sampled([](double d) { return 3.0 * std::exp(0.25 * d); }));
  CHECK(exponential[2].parameters[0] == doctest::Approx(3.0).epsilon(0.01));
  CHECK(exponential[2].parameters[1] == doctest::Approx(0.25).epsilon(0.01));
}

TEST_CASE("the criterion is AICc of normal errors, whose size is a parameter too") {
  const auto fits = fit_growth(sampled([](double d) { return 2.0 + 0.5 * d + 0.1 * d * d; }));
  constexpr double n = 25.0;
  for (std::size_t law = 0; law < 3; ++law) {
    const double k = law == 1 ? 4.0 : 3.0;  // coefficients, and the spread
    const double expected = 2.0 * n * std::log(fits[law].rms_residual) + 2.0 * k * n / (n - k - 1.0);
    CHECK(fits[law].aicc == doctest::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("what cannot be fitted has no numbers") {
  for (const std::vector<double>& values :
       {std::vector<double>{1, 2, 3, 4, 5}, {1, 2, 3, 0, 5, 6, 7}, {1, 2, 3, NAN, 5, 6, 7}}) {
    for (const auto& fit : fit_growth(values)) CHECK(std::isnan(fit.aicc));
  }
}

}  // namespace
}  // namespace periscope::testing
