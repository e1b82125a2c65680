#include "experiments/engine/judge/width_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/tools/minima.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <cstdint>

namespace periscope::judge {
namespace {

/// Fits a power law of the width to the standard errors, by least squares of logarithms. Returns the fitted values.
Eigen::VectorXd smoothed(const std::vector<int>& widths, const std::vector<Estimate>& points, double floor) {
  const auto n = static_cast<Eigen::Index>(widths.size());
  Eigen::MatrixXd design(n, 2);
  Eigen::VectorXd logs(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    design.row(i) << 1.0, std::log(widths[static_cast<std::size_t>(i)]);
    logs(i) = std::log(std::max(points[static_cast<std::size_t>(i)].error, floor));
  }
  return (design * design.colPivHouseholderQr().solve(logs)).array().exp();
}

constexpr double lowest = -4.0;
constexpr double highest = 2.0;
/// Step of the first search over exponents p. Even if values of x differ by a factor of 1000, two steps change their
/// ratio of x^p by less than a factor of e, so the search misses no minimum of χ².
constexpr double coarse = 0.05;
constexpr int coarse_steps = 120;  // from the lowest to the highest exponent
/// Precision of the exponent in bits. χ² is flat at its minimum, so rounding hides half of the location's digits.
constexpr int bits = std::numeric_limits<double>::digits / 2;

/// Returns the best fit with a given exponent p.
PowerLaw with_exponent(double p, const std::vector<double>& x, const std::vector<double>& y,
                       const std::vector<double>& error) {
  double yy = 0.0, yf = 0.0, ff = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double f = std::pow(x[i] / x[0], p) / error[i];  // relative to x_0, so that p = −4 does not overflow
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

Estimate WidthFit::at(double inverse_width) const {
  const std::array<double, 3> x{1.0, inverse_width, inverse_width * inverse_width};
  double variance = 0.0;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) variance += x[i] * x[j] * covariance(static_cast<int>(i), static_cast<int>(j));
  }
  return {limit.value + slope.value * x[1] + curvature.value * x[2], std::sqrt(std::max(0.0, variance))};
}

WidthFit fit_width(const std::vector<int>& widths, const std::vector<Estimate>& points, int seeds, double floor) {
  const auto n = static_cast<Eigen::Index>(widths.size());
  const double unit = *std::ranges::min_element(widths);  // x = unit/D ≤ 1 gives a well-conditioned design matrix
  Eigen::MatrixXd design(n, 3);
  Eigen::VectorXd y(n);
  Eigen::VectorXd error(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const double x = unit / widths[k];
    design.row(i) << 1.0, x, x * x;
    y(i) = points[k].value;
    error(i) = std::max(points[k].error, floor);
  }
  const Eigen::VectorXd weight = smoothed(widths, points, floor).cwiseInverse();
  const Eigen::MatrixXd weighted = weight.asDiagonal() * design;
  // The estimator is linear in y: coefficients = map · y.
  const Eigen::MatrixXd map = weighted.colPivHouseholderQr().solve(Eigen::MatrixXd(weight.asDiagonal()));
  const Eigen::Vector3d coefficients = map * y;
  const Eigen::Vector3d scale(1.0, unit, unit * unit);
  const Eigen::MatrixXd spread = map * error.asDiagonal();

  WidthFit fit;
  fit.covariance = scale.asDiagonal() * (spread * spread.transpose()) * scale.asDiagonal();
  const auto estimate = [&](Eigen::Index i) {
    return Estimate{coefficients(i) * scale(i), std::sqrt(fit.covariance(i, i))};
  };
  fit.limit = estimate(0);
  fit.slope = estimate(1);
  fit.curvature = estimate(2);
  const double largest = spread.row(0).cwiseAbs().maxCoeff();
  const Eigen::ArrayXd parts = (spread.row(0).array() / (largest > 0.0 ? largest : 1.0)).square();
  fit.degrees = largest > 0.0 ? parts.sum() * parts.sum() / (parts.square().sum() / (seeds - 1.0)) : seeds - 1.0;
  const double squares = (weight.asDiagonal() * (y - design * coefficients)).squaredNorm();
  const auto free = static_cast<double>(n - 3);
  const boost::math::fisher_f law(free, static_cast<double>(n) * (seeds - 1.0));
  fit.lack_of_fit = boost::math::cdf(boost::math::complement(law, squares / free));
  return fit;
}

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
