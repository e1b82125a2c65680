#include "experiments/engine/judge/power_law.h"

#include <algorithm>
#include <boost/math/tools/minima.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace periscope::judge {
namespace {

constexpr double lowest = -4.0;
constexpr double highest = 2.0;
/// Exponents are tried at this distance first. x^p changes by a factor of e within 1/ln x, which is more than twice as
/// far for values of x that differ by a factor of 1000: χ² has no valley that such steps miss.
constexpr double coarse = 0.05;
constexpr int coarse_steps = 120;  // from lowest to highest
/// Precision of the exponent: near a minimum χ² fixes its place only to half of the digits.
constexpr int bits = std::numeric_limits<double>::digits / 2;

/// Returns the law of exponent p with the best amplitude.
PowerLaw with_exponent(double p, const std::vector<double>& x, const std::vector<double>& y,
                       const std::vector<double>& error) {
  double yy = 0.0, yf = 0.0, ff = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double f = std::pow(x[i] / x[0], p) / error[i];  // relative to x_0: p = −4 stays in range
    const double v = y[i] / error[i];
    yy += v * v;
    yf += v * f;
    ff += f * f;
  }
  return {.exponent = p,
          .amplitude = yf / ff * std::pow(x[0], -p),
          .chi_squared = yy - yf * yf / ff,
          .significance = std::abs(yf) / std::sqrt(ff)};
}

}  // namespace

PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error) {
  const auto chi_squared = [&](double p) { return with_exponent(p, x, y, error).chi_squared; };
  PowerLaw best{.chi_squared = std::numeric_limits<double>::infinity()};
  for (int i = 0; i <= coarse_steps; ++i) {
    const double p = lowest + i * coarse;
    if (const double here = chi_squared(p); here < best.chi_squared) best = {.exponent = p, .chi_squared = here};
  }
  if (std::isinf(best.chi_squared)) return best;
  const double low = std::max(lowest, best.exponent - coarse), high = std::min(highest, best.exponent + coarse);
  best = with_exponent(boost::math::tools::brent_find_minima(chi_squared, low, high, bits).first, x, y, error);
  const auto rise = [&](double p) { return chi_squared(p) - best.chi_squared - 1.0; };
  const auto end = [&](double direction) {
    double inside = best.exponent;
    while (inside > lowest && inside < highest) {
      const double next = std::clamp(inside + direction * coarse, lowest, highest);
      if (rise(next) > 0.0) {
        std::uintmax_t evaluations = 100;
        return boost::math::tools::toms748_solve(rise, std::min(inside, next), std::max(inside, next),
                                                 boost::math::tools::eps_tolerance<double>(bits), evaluations)
            .first;
      }
      inside = next;
    }
    return std::numeric_limits<double>::quiet_NaN();
  };
  best.exponent_error = (end(1.0) - end(-1.0)) / 2.0;
  return best;
}

}  // namespace periscope::judge
