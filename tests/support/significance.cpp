#include "tests/support/significance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/doctest.h"

namespace periscope::testing {

Estimate estimate(std::span<const double> samples) {
  const auto n = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0.0;
  for (const double x : samples) squares += (x - mean) * (x - mean);
  return {mean, std::sqrt(squares / (n * (n - 1.0)))};
}

double z_score(Estimate a, double expected) { return z_score(a, Estimate{expected, 0.0}); }

double z_score(Estimate a, Estimate b) {
  const double difference = a.mean - b.mean;
  return difference == 0.0 ? 0.0 : difference / std::hypot(a.standard_error, b.standard_error);
}

void check_consistent(const std::string& what, Estimate measured, double expected) {
  check_consistent(what, measured, Estimate{expected, 0.0});
}

void check_consistent(const std::string& what, Estimate measured, Estimate expected) {
  const double z = z_score(measured, expected);
  CHECK_MESSAGE(std::abs(z) <= most_standard_errors, what, ": ", measured.mean, " +- ", measured.standard_error,
                ", expected ", expected.mean, " +- ", expected.standard_error, ", z = ", z);
}

double kolmogorov_distance(std::vector<double> samples, const std::function<double(double)>& cdf) {
  std::ranges::sort(samples);
  const auto n = static_cast<double>(samples.size());
  double distance = 0.0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double below = static_cast<double>(i) / n;
    const double expected = cdf(samples[i]);
    distance = std::max({distance, expected - below, below + 1.0 / n - expected});
  }
  return distance;
}

double kolmogorov_limit(std::size_t n, double false_alarm) {
  return std::sqrt(std::log(2.0 / false_alarm) / (2.0 * static_cast<double>(n)));
}

}  // namespace periscope::testing
