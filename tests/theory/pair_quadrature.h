#pragma once

#include <boost/math/quadrature/gauss.hpp>

#include <cmath>
#include <functional>
#include <numbers>

namespace periscope::testing {

using Function = std::function<double(double)>;

/// E f(x) for x ~ N(mean, std²) by composite 25-point Gauss–Legendre quadrature over ±9 std. Panels are 0.9 std wide
/// and split at 0, the kink of activations. The error is about 1e-14 for functions that are smooth elsewhere.
template <class F>
double normal_expectation(const F& f, double mean, double std) {
  if (std == 0.0) return f(mean);
  using Panel = boost::math::quadrature::gauss<double, 25>;
  const auto integrand = [&](double x) {
    const double z = (x - mean) / std;
    return f(x) * std::exp(-0.5 * z * z) / (std * std::sqrt(2.0 * std::numbers::pi));
  };
  constexpr int panels = 20;
  double sum = 0.0;
  for (int i = 0; i < panels; ++i) {
    const double low = mean + (18.0 * i / panels - 9.0) * std;
    const double high = mean + (18.0 * (i + 1) / panels - 9.0) * std;
    if (low < 0.0 && high > 0.0) {
      sum += Panel::integrate(integrand, low, 0.0) + Panel::integrate(integrand, 0.0, high);
    } else {
      sum += Panel::integrate(integrand, low, high);
    }
  }
  return sum;
}

/// E[f(u) f(v)] for a centred Gaussian pair of variances a and b and the given correlation, as two nested
/// integrals: over u, and over v given u. Uses only the conditional law of a Gaussian pair.
inline double pair_expectation(const Function& f, double a, double b, double correlation) {
  const double own = std::sqrt(b * (1.0 - correlation * correlation));
  return normal_expectation(
      [&](double u) {
        const double given = a > 0.0 ? correlation * std::sqrt(b / a) * u : 0.0;
        return f(u) * normal_expectation(f, given, own);
      },
      0.0, std::sqrt(a));
}

}  // namespace periscope::testing
