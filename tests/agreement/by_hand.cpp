#include "tests/agreement/by_hand.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace periscope::testing {

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double variance_of(const std::vector<double>& values) {
  double squares = 0.0;
  for (const double v : values) squares += (v - mean_of(values)) * (v - mean_of(values));
  return squares / (static_cast<double>(values.size()) - 1.0);
}

double error_of(const std::vector<double>& values) {
  return std::sqrt(variance_of(values) / static_cast<double>(values.size()));
}

bool near(double found, double expected) { return std::abs(found - expected) <= 1e-10 * (1.0 + std::abs(expected)); }

double critical_by_hand(double degrees, double level) {
  return boost::math::quantile(boost::math::students_t(degrees), 1.0 - level / 2.0);
}

double detectable_by_hand(double tolerated_bias, double error, double degrees, double scale, double level) {
  const double one_sided = boost::math::quantile(boost::math::students_t(degrees), 0.95);
  return (2.0 * tolerated_bias + (critical_by_hand(degrees, level) + one_sided) * error) / scale;
}

double degrees_by_hand(double a, double degrees_a, double b, double degrees_b) {
  const double variance = a * a + b * b;
  return variance * variance / (a * a * a * a / degrees_a + b * b * b * b / degrees_b);
}

}  // namespace periscope::testing
