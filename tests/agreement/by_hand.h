#pragma once

#include <vector>

/// What a test works out itself, by the definitions.
namespace periscope::testing {

double mean_of(const std::vector<double>& values);
/// Of one value: squares over n − 1.
double variance_of(const std::vector<double>& values);
/// Of the mean.
double error_of(const std::vector<double>& values);

/// Equal but for sums of a few dozen terms of order 1, in another order: 1e-10.
bool near(double found, double expected);

/// (2·tolerated_bias + (t_level + t_0.95)·error)/scale with Student's t, two-sided and one-sided (T22).
double detectable_by_hand(double tolerated_bias, double error, double degrees, double scale, double level);
/// Student's t, two-sided at `level`.
double critical_by_hand(double degrees, double level);
/// Welch and Satterthwaite: degrees of freedom of two errors with their own.
double degrees_by_hand(double a, double degrees_a, double b, double degrees_b);

}  // namespace periscope::testing
