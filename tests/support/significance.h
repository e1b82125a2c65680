#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

/// Statistical comparisons. Each is a test at a fixed seed with a stated false-alarm rate: it passes for
/// good or fails for good, and a correct program fails it with that probability, once, when it is written.
namespace periscope::testing {

/// Five standard errors, two-sided: false alarm 5.7e-7 per comparison, below 0.1 % for 1700 of them.
inline constexpr double most_standard_errors = 5.0;

/// A number that was estimated from samples.
struct Estimate {
  double mean;
  double standard_error;  ///< of the mean
};

/// Estimates a mean from independent samples, at least two.
Estimate estimate(std::span<const double> samples);

/// (a − expected)/s.e., and (a − b)/√(s.e.² + s.e.²). Equal numbers without error give 0.
double z_score(Estimate a, double expected);
double z_score(Estimate a, Estimate b);

/// Fails the running test if a z-score is beyond most_standard_errors.
void check_consistent(const std::string& what, Estimate measured, double expected);
void check_consistent(const std::string& what, Estimate measured, Estimate expected);

/// Largest distance of the samples' distribution function from `cdf` (Kolmogorov–Smirnov).
double kolmogorov_distance(std::vector<double> samples, const std::function<double(double)>& cdf);
/// The distance that n samples of the right distribution exceed with probability `false_alarm`
/// (asymptotic: √(ln(2/p)/(2n))).
double kolmogorov_limit(std::size_t n, double false_alarm);

}  // namespace periscope::testing
