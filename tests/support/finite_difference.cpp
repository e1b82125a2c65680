#include "tests/support/finite_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

/// Sum of the stencil's |coefficients|. Divided by the step, it bounds the amplification of errors of the loss.
constexpr double stencil_weight = 2.0 * (0.75 + 0.15 + 1.0 / 60.0);

double slope_along(const Differentiable& f, std::span<const double> direction) {
  std::vector<double> moved(f.point.size());
  return derivative(
      [&](double t) {
        for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = f.point[i] + t * direction[i];
        return f.loss(moved);
      },
      f.step);
}

void compare(GradientCheck& check, const Differentiable& f, const std::vector<double>& direction,
             const std::string& where) {
  double claimed = 0.0;
  for (std::size_t i = 0; i < direction.size(); ++i) {
    if (direction[i] != 0.0) claimed += f.gradient[i] * direction[i];
  }
  const double found = slope_along(f, direction);
  const double allowed = stencil_weight * f.loss_error / f.step;
  double units = std::abs(claimed - found) / allowed;
  if (std::isnan(units)) units = HUGE_VAL;
  check.largest = std::max(check.largest, std::abs(found) / allowed);
  if (units < check.worst) return;
  check.worst = units;
  check.where =
      fmt::format("{}: gradient {:.12g}, finite difference {:.12g}, allowed {:.3g}", where, claimed, found, allowed);
}

void report(const std::string& what, const GradientCheck& check) {
  CHECK_MESSAGE(check.worst <= 1.0, what, ", ", check.where);
  CHECK_MESSAGE(check.largest >= 100.0, what, ": all derivatives are near zero, ", check.where);
}

}  // namespace

double derivative(const std::function<double(double)>& f, double h) {
  return (45.0 * (f(h) - f(-h)) - 9.0 * (f(2.0 * h) - f(-2.0 * h)) + (f(3.0 * h) - f(-3.0 * h))) / (60.0 * h);
}

GradientCheck check_directions(const Differentiable& f, int directions) {
  std::mt19937_64 engine(20240229);
  std::normal_distribution<double> normal;
  GradientCheck check;
  for (int i = 0; i < directions; ++i) {
    std::vector<double> direction(f.point.size());
    for (double& x : direction) x = normal(engine);
    compare(check, f, direction, fmt::format("direction {}", i));
  }
  return check;
}

GradientCheck check_entries(const Differentiable& f, int entries) {
  const std::size_t size = f.point.size();
  const std::size_t count = entries == 0 ? size : std::min(size, static_cast<std::size_t>(entries));
  GradientCheck check;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * size / count;
    std::vector<double> direction(size, 0.0);
    direction[at] = 1.0;
    compare(check, f, direction, fmt::format("entry {} of {}", at, size));
  }
  return check;
}

void check_gradient(const std::string& what, const Differentiable& f, int directions, int entries) {
  REQUIRE_MESSAGE(f.gradient.size() == f.point.size(), what);
  report(what, check_directions(f, directions));
  GradientCheck check = check_entries(f, entries);
  check.largest = HUGE_VAL;  // single entries may have derivative 0
  report(what, check);
}

}  // namespace periscope::testing
