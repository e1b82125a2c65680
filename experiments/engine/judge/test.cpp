#include "experiments/engine/judge/test.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace periscope::judge {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Returns the upper quantile of Student's t at probability `tail`.
double quantile(double degrees, double tail) {
  // `tail` may underflow to 0.
  if (!(tail > 0.0)) return infinity;
  if (tail >= 0.5) return 0.0;
  return boost::math::quantile(boost::math::complement(boost::math::students_t(std::max(degrees, 1.0)), tail));
}

}  // namespace

std::string Test::curve_name() const {
  return fmt::format("{} {}", statistic_names[static_cast<std::size_t>(statistic)],
                     weight ? weight_names[static_cast<std::size_t>(*weight)] : name_of(signal));
}

std::string Test::name() const {
  if (!label.empty()) return label;
  return contrast.empty() ? fmt::format("{}[{}]", curve_name(), index) : fmt::format("{} {}", curve_name(), contrast);
}

bool is_gradient(Statistic statistic) {
  return statistic == Statistic::grad_sq || statistic == Statistic::log_grad_sq || statistic == Statistic::score_share;
}

bool Test::is_finite() const {
  return std::isfinite(measured.value) && std::isfinite(predicted.value) && std::isfinite(tolerated_bias);
}

double Test::z() const {
  const double difference = measured.value - predicted.value;
  return difference == 0.0 ? 0.0 : difference / error();
}

double Test::error() const {
  const double own = std::hypot(measured.error, predicted.error);
  if (spread_degrees < 1 || seeds < 2 || replicates < 1) return own;
  const double n = seeds;
  // The variance of one seed's value is n times the squared standard error of the mean.
  const double pooled =
      ((n - 1.0) * n * std::pow(measured.error, 2) + spread_degrees * std::pow(spread, 2)) / (n - 1.0 + spread_degrees);
  return std::max(own, std::sqrt(pooled * (1.0 / n + 1.0 / replicates)));
}

double Test::degrees() const {
  if (spread_degrees >= 1 && seeds >= 2) return seeds - 1 + spread_degrees;
  const double own = measured_degrees > 0.0 ? measured_degrees : std::max(1, seeds - 1);
  const double a = std::pow(measured.error, 2);
  const double b = replicates > 1 ? std::pow(predicted.error, 2) : 0.0;
  if (!(a + b > 0.0) || !std::isfinite(a + b)) return own;
  // Normalised by the sum, so that squares of tiny errors do not underflow.
  const double share_a = a / (a + b);
  const double share_b = b / (a + b);
  const double inverse = std::pow(share_a, 2) / own + std::pow(share_b, 2) / std::max(1, replicates - 1);
  return std::max(1.0, 1.0 / inverse);
}

double Test::excess() const {
  const double beyond = std::abs(measured.value - predicted.value) - tolerated_bias;
  if (beyond <= 0.0) return 0.0;
  const double s = error();
  return s == 0.0 ? infinity : beyond / s;
}

double Test::detectable_at(double level) const {
  const double s = error();
  const double errors = critical_excess(degrees(), level) + quantile(degrees(), 1.0 - wanted_power);
  const double hidden = 2.0 * tolerated_bias + (s == 0.0 ? 0.0 : errors * s);
  if (hidden == 0.0) return 0.0;
  const double relative = hidden / std::abs(scale);
  return std::isnan(relative) ? infinity : relative;
}

double critical_excess(double degrees, double level) { return quantile(degrees, level / 2.0); }

double sidak_level(double familywise_error, std::size_t tests) {
  return -std::expm1(std::log1p(-familywise_error) / static_cast<double>(std::max<std::size_t>(tests, 1)));
}

int allowed_rejections(int runs, double error) {
  const boost::math::binomial law(runs, error);
  int most = 0;
  while (most < runs && boost::math::cdf(boost::math::complement(law, most)) >= 0.01) ++most;
  return most;
}

std::string number_words(double x) {
  if (std::isnan(x)) return "NaN";
  return std::isinf(x) ? "inf" : fmt::format("{:.3g}", x);
}

std::string error_words(double error) { return fmt::format("{:.2g}", error); }

std::string plus_minus(const Estimate& estimate) {
  if (!std::isfinite(estimate.value)) return "-";
  const double error = estimate.error;
  if (!(error > 0.0) || std::isinf(error)) return fmt::format("{:.4g}", estimate.value);
  if (error >= 1e6) return fmt::format("{:.4g} ± {:.2g}", estimate.value, error);
  const int digits = std::clamp(1 + static_cast<int>(std::ceil(-std::log10(error))), 0, 9);
  return fmt::format("{:.{}f} ± {:.{}f}", estimate.value, digits, error, digits);
}

std::string number_or_dash(double x, const char* format) {
  return std::isnan(x) ? "-" : fmt::format(fmt::runtime(format), x);
}

}  // namespace periscope::judge
