#include "experiments/engine/judge/width_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <cmath>

namespace periscope::judge {
namespace {

/// The standard errors as a power law of the width, least squares in logarithms.
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
  const double unit = *std::ranges::min_element(widths);  // x = unit/D is at most 1: a well-scaled design
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
  // The estimator is linear: coefficients = map · y.
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

}  // namespace periscope::judge
