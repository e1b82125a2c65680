#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

/// Statistical comparisons at fixed seeds with a known false-alarm rate. Results are reproducible, so a false alarm can
/// occur only when a test is written or its random numbers change.
namespace periscope::testing {

/// Five standard errors, two-sided: false-alarm probability 5.7e-7 per comparison, below 0.1 % for 1700.
inline constexpr double most_standard_errors = 5.0;

struct Estimate {
  double mean;
  double standard_error;  ///< standard error of the mean
};

/// Estimates a mean from at least two independent samples.
Estimate estimate(std::span<const double> samples);

/// Returns the difference divided by its standard error; 0 for equal numbers without error.
double z_score(Estimate a, double expected);
double z_score(Estimate a, Estimate b);

/// Fails the running test if a z-score is beyond most_standard_errors.
void check_consistent(const std::string& what, Estimate measured, double expected);
void check_consistent(const std::string& what, Estimate measured, Estimate expected);

/// Largest distance of the samples' distribution function from `cdf` (Kolmogorov–Smirnov).
double kolmogorov_distance(std::vector<double> samples, const std::function<double(double)>& cdf);
/// Critical distance for n samples at significance level `false_alarm` (asymptotic: √(ln(2/p)/(2n))).
double kolmogorov_limit(std::size_t n, double false_alarm);

}  // namespace periscope::testing
