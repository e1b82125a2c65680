#include "tests/support/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double in_units_of(double allowed, double actual, double expected) {
  if (std::isnan(actual) && std::isnan(expected)) return 0.0;
  if (actual == expected) return 0.0;
  const double difference = std::abs(actual - expected);
  if (!std::isfinite(difference) || !(allowed > 0.0)) return infinity;
  return difference / allowed;
}

}  // namespace

Residual residual(std::span<const double> actual, std::span<const double> expected, std::span<const double> allowed) {
  if (actual.size() != expected.size() || actual.size() != allowed.size()) return {.worst = infinity};
  Residual r;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double units = in_units_of(allowed[i], actual[i], expected[i]);
    if (i == 0 || units > r.worst) r = {units, i, actual[i], expected[i], allowed[i]};
  }
  return r;
}

Residual residual(std::span<const double> actual, std::span<const double> expected, double allowed) {
  return residual(actual, expected, std::vector<double>(actual.size(), allowed));
}

std::string describe(const Residual& r) {
  return fmt::format("largest error at [{}]: {:.17g}, expected {:.17g}, difference {:.3g} = {:.3g} of allowed {:.3g}",
                     r.at, r.actual, r.expected, std::abs(r.actual - r.expected), r.worst, r.allowed);
}

void check_close(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                 std::span<const double> allowed) {
  const Residual r = residual(actual, expected, allowed);
  CHECK_MESSAGE(r.worst <= 1.0, what, ": ", actual.size(), " entries, expected ", expected.size(), ", ", describe(r));
}

void check_close(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                 double allowed) {
  check_close(what, actual, expected, std::vector<double>(actual.size(), allowed));
}

void check_close_to_scale(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                          double relative) {
  double scale = 0.0;
  for (const double x : expected) scale = std::max(scale, std::abs(x));
  check_close(what, actual, expected, relative * scale);
}

std::size_t first_difference(std::span<const double> actual, std::span<const double> expected) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  const auto [a, e] = std::ranges::mismatch(actual, expected, {}, bits, bits);
  return static_cast<std::size_t>(a - actual.begin());
}

void check_same_bits(const std::string& what, std::span<const double> actual, std::span<const double> expected) {
  REQUIRE_MESSAGE(actual.size() == expected.size(), what);
  const std::size_t at = first_difference(actual, expected);
  CHECK_MESSAGE(at == actual.size(), what, ": first differing bits at [", at, "]");
}

}  // namespace periscope::testing
