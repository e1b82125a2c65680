#include "experiments/reproduce/depth_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope::reproduce {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Akaike's criterion for normal errors of one unknown size, which is a parameter too, corrected for few points
/// (Hurvich and Tsai 1989).
double aicc_of(double mean_square, std::size_t points, std::size_t parameters) {
  const auto n = static_cast<double>(points);
  const auto k = static_cast<double>(parameters) + 1.0;
  return n * std::log(mean_square) + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0);
}

/// Powers 0 … degree of the depth [points, degree + 1].
MatrixXd powers_of_depth(std::size_t points, int degree) {
  MatrixXd x(static_cast<Eigen::Index>(points), degree + 1);
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    for (int p = 0; p <= degree; ++p) x(i, p) = std::pow(static_cast<double>(i), p);
  }
  return x;
}

/// Σ (ln y − ln m)², infinite where the law is not positive everywhere.
double cost_of(const VectorXd& logs, const VectorXd& law) {
  if (law.minCoeff() <= 0.0) return infinite;
  return (logs - law.array().log().matrix()).squaredNorm();
}

/// Gauss and Newton's steps with halving, from the least squares of relative errors, or from the flat law where those
/// have no positive solution.
VectorXd fit_polynomial(const VectorXd& logs, const MatrixXd& x) {
  const VectorXd values = logs.array().exp();
  const MatrixXd weighted = values.cwiseInverse().asDiagonal() * x;
  VectorXd p = weighted.colPivHouseholderQr().solve(VectorXd::Ones(logs.size()));
  double cost = cost_of(logs, x * p);
  if (!std::isfinite(cost)) {
    p.setZero();
    p(0) = std::exp(logs.mean());
    cost = cost_of(logs, x * p);
  }
  for (int step = 0; step < 200; ++step) {
    const VectorXd law = x * p;
    const MatrixXd jacobian = law.cwiseInverse().asDiagonal() * x;
    const VectorXd change = jacobian.colPivHouseholderQr().solve(logs - law.array().log().matrix());
    double factor = 1.0;
    double next = cost_of(logs, x * (p + change));
    while (!(next < cost) && factor > 1e-6) {
      factor *= 0.5;
      next = cost_of(logs, x * (p + factor * change));
    }
    if (!(next < cost)) break;
    p += factor * change;
    const bool settled = cost - next < 1e-12 * cost;
    cost = next;
    if (settled) break;
  }
  return p;
}

DepthFit fit_of(const VectorXd& logs, const VectorXd& parameters, const VectorXd& log_law) {
  const double mean_square = (logs - log_law).squaredNorm() / static_cast<double>(logs.size());
  return {
      .parameters = {parameters.data(), parameters.data() + parameters.size()},
      .rms_residual = std::sqrt(mean_square),
      .aicc = aicc_of(mean_square, static_cast<std::size_t>(logs.size()), static_cast<std::size_t>(parameters.size()))};
}

}  // namespace

std::array<DepthFit, 3> fit_growth(const std::vector<double>& values) {
  const bool fitted =
      values.size() >= 6 && std::ranges::all_of(values, [](double v) { return v > 0.0 && std::isfinite(v); });
  if (!fitted) {
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    const DepthFit none{.parameters = {}, .rms_residual = nothing, .aicc = nothing};
    return {none, none, none};
  }
  const VectorXd logs =
      Eigen::Map<const VectorXd>(values.data(), static_cast<Eigen::Index>(values.size())).array().log();
  std::array<DepthFit, 3> fits;
  for (int degree = 1; degree <= 2; ++degree) {
    const MatrixXd x = powers_of_depth(values.size(), degree);
    const VectorXd p = fit_polynomial(logs, x);
    fits[static_cast<std::size_t>(degree - 1)] = fit_of(logs, p, (x * p).array().log());
  }
  const MatrixXd x = powers_of_depth(values.size(), 1);
  VectorXd p = x.colPivHouseholderQr().solve(logs);
  const VectorXd law = x * p;
  p(0) = std::exp(p(0));
  fits[2] = fit_of(logs, p, law);
  return fits;
}

GrowthLaw best_law(const std::array<DepthFit, 3>& fits) {
  const auto best = std::ranges::min_element(fits, {}, &DepthFit::aicc);
  return static_cast<GrowthLaw>(best - fits.begin());
}

}  // namespace periscope::reproduce
