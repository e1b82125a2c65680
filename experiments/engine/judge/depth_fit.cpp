#include "experiments/engine/judge/depth_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope::judge {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Returns powers 0 … degree of the fitted depths [points, degree + 1].
MatrixXd powers_of_depth(std::size_t points, int degree) {
  MatrixXd x(static_cast<Eigen::Index>(points), degree + 1);
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    const auto depth = static_cast<double>(first_fitted_depth) + static_cast<double>(i);
    for (int p = 0; p <= degree; ++p) x(i, p) = std::pow(depth, p);
  }
  return x;
}

/// Returns Σ (ln y − ln law)²; infinity if the law is not positive everywhere.
double cost_of(const VectorXd& logs, const VectorXd& law) {
  if (law.minCoeff() <= 0.0) return infinite;
  return (logs - law.array().log().matrix()).squaredNorm();
}

/// Fits a polynomial by Gauss-Newton with step halving. Starts from the least-squares fit of relative errors, or from a
/// constant if that fit is not positive everywhere.
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

/// A fitted law: parameters, residuals of the logarithms, and derivatives of the law's logarithm.
struct Fitted {
  VectorXd parameters, residuals;
  MatrixXd derivatives;
};

/// Returns ρ of GrowthFit for the closest law: the root of Σ_ij (MAM − r M)_ij ρ^|i−j|, where r is the autocorrelation
/// of the residuals at lag 1; 0 if the root is negative. GrowthFit defines M and A.
double error_autocorrelation(const Fitted& law) {
  constexpr double largest = 0.99;
  const VectorXd& r = law.residuals;
  const Eigen::Index n = r.size();
  const double square = r.squaredNorm();
  const double found = square == 0.0 ? 0.0 : r.head(n - 1).dot(r.tail(n - 1)) / square;
  const MatrixXd q =
      Eigen::HouseholderQR<MatrixXd>(law.derivatives).householderQ() * MatrixXd::Identity(n, law.derivatives.cols());
  const MatrixXd left = MatrixXd::Identity(n, n) - q * q.transpose();
  MatrixXd neighbours = MatrixXd::Zero(n, n);
  neighbours.diagonal(1).setConstant(0.5);
  neighbours.diagonal(-1).setConstant(0.5);
  const MatrixXd difference = left * neighbours * left - found * left;
  const auto is_below = [&](double rho) {
    double sum = 0.0;
    for (Eigen::Index lag = n - 1; lag >= 0; --lag) {
      sum = sum * rho + (lag == 0 ? 1.0 : 2.0) * difference.diagonal(lag).sum();
    }
    return sum < 0.0;
  };
  if (!is_below(0.0)) return 0.0;
  double low = 0.0, high = largest;
  while (high - low > 1e-9) {
    const double middle = 0.5 * (low + high);
    (is_below(middle) ? low : high) = middle;
  }
  return high;
}

GrowthFit compare_laws(const std::array<Fitted, 3>& fitted) {
  const auto size = [](const Fitted& law) { return law.residuals.squaredNorm(); };
  const Fitted& closest = *std::ranges::min_element(fitted, {}, size);
  const double rho = error_autocorrelation(closest);
  const auto n = static_cast<double>(closest.residuals.size());
  GrowthFit fit{.laws = {}, .effective_points = n * (1.0 - rho) / (1.0 + rho)};
  for (std::size_t law = 0; law < fitted.size(); ++law) {
    const VectorXd& parameters = fitted[law].parameters;
    const double mean_square = size(fitted[law]) / n;
    const auto free = n - static_cast<double>(parameters.size());
    const double k = static_cast<double>(parameters.size()) + 1.0;
    fit.laws[law] = {
        .parameters = {parameters.data(), parameters.data() + parameters.size()},
        .rms_residual = std::sqrt(mean_square),
        .residual_deviation = std::sqrt(mean_square * n / free),
        .criterion = fit.effective_points * std::log(mean_square) + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0)};
  }
  return fit;
}

}  // namespace

GrowthFit fit_growth(const std::vector<double>& values) {
  const std::size_t points = values.size() - std::min(values.size(), first_fitted_depth);
  const VectorXd fitted_values =
      Eigen::Map<const VectorXd>(values.data() + (values.size() - points), static_cast<Eigen::Index>(points));
  if (points < 6 || !fitted_values.allFinite() || fitted_values.minCoeff() <= 0.0) return {};
  const VectorXd logs = fitted_values.array().log();
  std::array<Fitted, 3> fitted;
  for (int degree = 1; degree <= 2; ++degree) {
    const MatrixXd x = powers_of_depth(points, degree);
    const VectorXd p = fit_polynomial(logs, x);
    fitted[static_cast<std::size_t>(degree - 1)] = {.parameters = p,
                                                    .residuals = logs - (x * p).array().log().matrix(),
                                                    .derivatives = (x * p).cwiseInverse().asDiagonal() * x};
  }
  const MatrixXd x = powers_of_depth(points, 1);
  VectorXd p = x.colPivHouseholderQr().solve(logs);
  const VectorXd residuals = logs - x * p;
  p(0) = std::exp(p(0));
  fitted[2] = {.parameters = p, .residuals = residuals, .derivatives = x};
  return compare_laws(fitted);
}

std::vector<GrowthLaw> likely_laws(const GrowthFit& fit) {
  const double best = std::ranges::min(fit.laws, {}, &DepthFit::criterion).criterion;
  std::vector<GrowthLaw> likely;
  bool described = false;
  for (std::size_t law = 0; law < fit.laws.size(); ++law) {
    const DepthFit& one = fit.laws[law];
    if (one.criterion != best && !(one.criterion < best + decisive_criterion)) continue;  // both criteria may be −∞
    likely.push_back(static_cast<GrowthLaw>(law));
    described = described || one.rms_residual <= largest_misfit;
  }
  return described ? likely : std::vector<GrowthLaw>();
}

std::string likely_laws_in_words(const GrowthFit& fit) {
  std::vector<std::string_view> names;
  for (const GrowthLaw law : likely_laws(fit)) names.push_back(growth_law_names[static_cast<std::size_t>(law)]);
  if (names.size() < 2) return std::string(names.empty() ? no_growth_law : names.front());
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("not decided between {} and {}", fmt::join(names, ", "), last);
}

}  // namespace periscope::judge
