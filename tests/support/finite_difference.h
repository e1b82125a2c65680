#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace periscope::testing {

/// f'(0) by the central stencil of sixth order: its own error is step⁶·f⁽⁷⁾/140.
double derivative(const std::function<double(double)>& f, double step);

/// A gradient held against finite differences of its function.
struct GradientCheck {
  double worst = 0.0;    ///< largest |difference| in units of the allowed error: up to 1 is agreement
  double largest = 0.0;  ///< largest |derivative| seen, in the same units: near 1 nothing was tested
  std::string where;     ///< the worst comparison, in words
};

/// A function whose gradient is checked: `loss` at a point, the gradient there, and what rounding does to a value of
/// the loss.
struct Differentiable {
  std::function<double(std::span<const double>)> loss;
  std::vector<double> point;
  std::vector<double> gradient;
  double loss_error = 0.0;  ///< absolute
  double step = 1e-3;       ///< of every entry; small enough that no kink lies within three steps
};

/// Compares along `directions` random directions (entries N(0, 1)) and at `entries` entries spread evenly over
/// the point (0: all of them).
GradientCheck check_directions(const Differentiable& f, int directions);
GradientCheck check_entries(const Differentiable& f, int entries);

/// Fails the running test unless the gradient agrees both ways, and unless some derivative is at least 100 times
/// what is allowed: a zero gradient of a function that does not depend on the point would agree too.
void check_gradient(const std::string& what, const Differentiable& f, int directions = 2, int entries = 0);

}  // namespace periscope::testing
