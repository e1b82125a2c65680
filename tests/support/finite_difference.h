#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace periscope::testing {

/// Returns f'(0) by the central stencil of sixth order, whose error is step⁶·f⁽⁷⁾/140.
double derivative(const std::function<double(double)>& f, double step);

struct GradientCheck {
  double worst = 0.0;    ///< largest |difference| in units of the allowed error; at most 1 if they agree
  double largest = 0.0;  ///< largest |derivative| in the same units; a check with a value near 1 has no power
  std::string where;     ///< description of the worst comparison
};

/// A function, its gradient at a point, and the rounding error of its values.
struct Differentiable {
  std::function<double(std::span<const double>)> loss;
  std::vector<double> point;
  std::vector<double> gradient;
  double loss_error = 0.0;  ///< absolute error of the loss
  double step = 1e-3;       ///< finite-difference step; no kink of the loss may lie within three steps
};

/// Compare along random directions with N(0, 1) entries, or for `entries` evenly spaced single entries (all if 0).
GradientCheck check_directions(const Differentiable& f, int directions);
GradientCheck check_entries(const Differentiable& f, int entries);

/// Fails the running test unless the gradient passes both comparisons and some derivative is at least 100 times the
/// allowed error. Otherwise a zero gradient of a function that ignores the point would pass.
void check_gradient(const std::string& what, const Differentiable& f, int directions = 2, int entries = 0);

}  // namespace periscope::testing
