#include "experiments/engine/judge/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace periscope::judge {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The excess that a one-sided test rejects at `tail`.
double quantile(double degrees, double tail) {
  // Beyond Boost's range of exponents the quantile is as good as infinite.
  if (!(tail > 0.0)) return infinity;
  if (tail >= 0.5) return 0.0;
  return boost::math::quantile(boost::math::complement(boost::math::students_t(std::max(degrees, 1.0)), tail));
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::agrees: return "agrees";
    case Verdict::disagrees: return "disagrees";
    case Verdict::inconclusive: return "inconclusive";
    case Verdict::not_checked: break;
  }
  return "not-checked";
}

std::string Cell::name() const {
  const auto place = weight ? weight_names[static_cast<std::size_t>(*weight)] : name_of(signal);
  const auto what = statistic_names[static_cast<std::size_t>(statistic)];
  if (!contrast.empty()) return fmt::format("{} {} {}", what, place, contrast);
  return fmt::format("{} {}[{}]", what, place, index);
}

bool is_gradient(Statistic statistic) {
  return statistic == Statistic::grad_sq || statistic == Statistic::log_grad_sq || statistic == Statistic::score_share;
}

bool Cell::is_finite() const { return std::isfinite(measured) && std::isfinite(predicted) && std::isfinite(allowance); }

double Cell::z() const {
  const double difference = measured - predicted;
  return difference == 0.0 ? 0.0 : difference / error();
}

double Cell::error() const {
  const double own = std::hypot(measured_error, predicted_error);
  if (spread_degrees < 1 || seeds < 2 || replicates < 1) return own;
  const double n = seeds;
  // The variance of one seed's reading is n times the square of the error of the seeds' mean.
  const double pooled =
      ((n - 1.0) * n * std::pow(measured_error, 2) + spread_degrees * std::pow(spread, 2)) / (n - 1.0 + spread_degrees);
  return std::max(own, std::sqrt(pooled * (1.0 / n + 1.0 / replicates)));
}

double Cell::degrees() const {
  if (spread_degrees >= 1 && seeds >= 2) return seeds - 1 + spread_degrees;
  const double a = std::pow(measured_error, 2);
  const double b = replicates > 1 ? std::pow(predicted_error, 2) : 0.0;
  if (!(a + b > 0.0) || !std::isfinite(a + b)) return std::max(1, seeds - 1);
  // As shares of the sum, so that squares of tiny errors do not vanish.
  const double share_a = a / (a + b);
  const double share_b = b / (a + b);
  const double inverse =
      std::pow(share_a, 2) / std::max(1, seeds - 1) + std::pow(share_b, 2) / std::max(1, replicates - 1);
  return std::max(1.0, 1.0 / inverse);
}

double Cell::excess() const {
  const double beyond = std::abs(measured - predicted) - allowance;
  if (beyond <= 0.0) return 0.0;
  const double s = error();
  return s == 0.0 ? infinity : beyond / s;
}

double Cell::p_value() const {
  const double e = excess();
  if (e == 0.0) return 1.0;
  if (std::isinf(e)) return 0.0;
  if (std::isnan(e)) return 1.0;  // agreements_of() does not take such a cell for agreement
  return 2.0 * boost::math::cdf(boost::math::complement(boost::math::students_t(degrees()), e));
}

double Cell::smallest_rejected(double level) const {
  const double s = error();
  const double limit = critical_excess(degrees(), level) + quantile(degrees(), 1.0 - wanted_power);
  const double hidden = 2.0 * allowance + (s == 0.0 ? 0.0 : limit * s);
  if (hidden == 0.0) return 0.0;
  const double relative = hidden / std::abs(scale);
  return std::isnan(relative) ? infinity : relative;
}

std::string number_words(double x) {
  if (std::isnan(x)) return "no number";
  return std::isinf(x) ? "beyond all numbers" : fmt::format("{:.3g}", x);
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

int clear_sign(double mean, double standard_error, double seeds, double level) {
  const double limit = critical_excess(seeds - 1.0, level) * standard_error;
  return mean > limit ? 1 : mean < -limit ? -1 : 0;
}

}  // namespace periscope::judge
