#include "theory/extremes.h"

#include <boost/math/quadrature/gauss_kronrod.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <vector>

namespace periscope::theory {

double typical_maximum(double n, double sigma) {
  const double root = std::sqrt(2.0 * std::log(n));
  return sigma * (root - (std::log(std::log(n)) + std::log(4.0 * std::numbers::pi)) / (2.0 * root));
}

namespace {

/// Tokens of about the same second moment, as one entry.
struct Group {
  double second_moment;
  double tokens;
};

/// Groups of 1, 1, 2, 4, 8 … tokens from the largest second moment down, each by its mean: exact for equal
/// tokens, and fine where the maximum is decided.
std::vector<Group> grouped(const Vector& second_moment) {
  std::vector<double> q(second_moment.begin(), second_moment.end());
  std::ranges::sort(q, std::greater<>());
  std::vector<Group> groups;
  std::size_t size = 1;
  for (std::size_t first = 0; first < q.size(); first += size, size = first) {
    const std::size_t last = std::min(q.size(), first + size);
    const auto begin = q.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = q.begin() + static_cast<std::ptrdiff_t>(last);
    const auto tokens = static_cast<double>(last - first);
    groups.push_back({std::accumulate(begin, end, 0.0) / tokens, tokens});
  }
  return groups;
}

}  // namespace

double expected_maximum(const Vector& second_moment, int width) {
  const double largest = std::sqrt(second_moment.maxCoeff());
  if (!(largest > 0.0) || !std::isfinite(largest)) return largest;
  const std::vector<Group> groups = grouped(second_moment);
  const auto above = [&](double m) {
    double log_below = 0.0;
    for (const auto& [q, tokens] : groups) {
      if (q > 0.0) log_below += tokens * width * std::log1p(-std::erfc(m * largest / std::sqrt(2.0 * q)));
      if (log_below < -40.0) break;
    }
    return -std::expm1(log_below);
  };
  // Beyond 10 standard deviations 1 − erf is under 2e−23: nothing beside the integral for any size that fits in memory.
  constexpr double end = 10.0;
  constexpr unsigned halvings = 15;
  constexpr double tolerance = 1e-7;  // by an estimate that is far too large: results are right to 1e-10
  return largest * boost::math::quadrature::gauss_kronrod<double, 21>::integrate(above, 0.0, end, halvings, tolerance);
}

}  // namespace periscope::theory
