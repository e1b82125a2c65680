#include "experiments/common/power_law.h"

#include <cmath>
#include <limits>

namespace periscope {
namespace {

constexpr double lowest = -4.0;
constexpr double highest = 2.0;
constexpr double step = 1e-3;

struct Amplitude {
  double value;
  double chi_squared;
};

Amplitude best_amplitude(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error,
                         double p) {
  double yy = 0.0;
  double yf = 0.0;
  double ff = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double f = std::pow(x[i] / x[0], p) / error[i];  // relative to x_0: p = −4 stays in range
    const double v = y[i] / error[i];
    yy += v * v;
    yf += v * f;
    ff += f * f;
  }
  return {yf / ff * std::pow(x[0], -p), yy - yf * yf / ff};
}

}  // namespace

double chi_squared_of(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error,
                      double p) {
  return best_amplitude(x, y, error, p).chi_squared;
}

PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error) {
  PowerLaw best{.chi_squared = std::numeric_limits<double>::infinity()};
  for (double p = lowest; p <= highest; p += step) {
    const auto [a, chi_squared] = best_amplitude(x, y, error, p);
    if (chi_squared < best.chi_squared) best = {.exponent = p, .amplitude = a, .chi_squared = chi_squared};
  }
  double nothing = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) nothing += y[i] * y[i] / (error[i] * error[i]);
  best.significance = std::sqrt(std::max(0.0, nothing - best.chi_squared));
  const auto end = [&](double direction) {
    double p = best.exponent;
    while (p > lowest && p < highest && chi_squared_of(x, y, error, p) <= best.chi_squared + 1.0) p += direction * step;
    return p;
  };
  const double low = end(-1.0);
  const double high = end(1.0);
  const bool closed = low > lowest && high < highest;
  best.exponent_error = closed ? (high - low) / 2.0 : std::numeric_limits<double>::quiet_NaN();
  return best;
}

}  // namespace periscope
