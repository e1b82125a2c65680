#include "tests/support/finite_difference.h"

#include <cmath>

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

/// Σ i·sin(x_i) with its gradient i·cos(x_i).
Differentiable sines() {
  Differentiable f;
  f.loss = [](std::span<const double> x) {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(i) * std::sin(x[i]);
    return sum;
  };
  for (std::size_t i = 0; i < 20; ++i) {
    f.point.push_back(0.1 * static_cast<double>(i));
    f.gradient.push_back(static_cast<double>(i) * std::cos(f.point.back()));
  }
  f.loss_error = 1e-13;
  return f;
}

TEST_CASE("derivative is exact for polynomials of degree six and has an error of sixth order otherwise") {
  const auto polynomial = [](double t) { return 3.0 - 2.0 * t + std::pow(t, 2) + 7.0 * std::pow(t, 6); };
  CHECK(derivative(polynomial, 0.5) == approx(-2.0).epsilon(1e-14));
  const auto error = [](double h) { return std::abs(derivative([](double t) { return std::exp(t); }, h) - 1.0); };
  CHECK(error(0.2) / error(0.1) == approx(64.0).epsilon(0.05));
}

TEST_CASE("a correct gradient passes; a wrong entry is detected along directions and by entries") {
  check_gradient("sines", sines());
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{7}, std::size_t{19}}) {
    for (const double by : {1e-8, -1e-3, 1.0, std::nan("")}) {
      Differentiable f = sines();
      f.gradient[wrong] += by;
      CHECK(check_directions(f, 2).worst > 1.0);
      CHECK(check_entries(f, 0).worst > 1.0);
    }
  }
}

TEST_CASE("the check of a constant function finds no significant derivative") {
  Differentiable f = sines();
  f.loss = [](std::span<const double>) { return 1.0; };
  f.gradient.assign(f.gradient.size(), 0.0);
  const GradientCheck check = check_directions(f, 2);
  CHECK(check.worst == 0.0);
  CHECK(check.largest < 100.0);
}

}  // namespace
}  // namespace periscope::testing
