#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// Activations, gates and their gradients on every backend, compared with the reference within rounding bounds.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;
constexpr Activation every_kind[] = {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh,
                                     Activation::sigmoid};
const std::string names[] = {" relu", " gelu", " silu", " gelu_tanh", " sigmoid"};

/// Sum of the magnitudes of the terms of φ'(x); see slope_error.
double slope_magnitude(Activation kind, double x) {
  if (kind == Activation::sigmoid) return 1.0 / (1.0 + std::exp(x)) / (1.0 + std::exp(-x));
  if (kind == Activation::gelu_tanh) {
    const double u = std::sqrt(8.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    const double slope = std::sqrt(8.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * x * x);
    return (1.0 + std::abs(x) * slope / (1.0 + std::exp(u))) / (1.0 + std::exp(-u));
  }
  if (kind == Activation::gelu) {
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) +
           std::abs(x) * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
  }
  return (1.0 + std::abs(x) / (1.0 + std::exp(x))) / (1.0 + std::exp(-x));
}

void check_activation(const Target& target, Activation kind, const Twin& x, const Twin& up, const Twin& dy) {
  const Backend& ops = *target.backend;
  const DType dtype = target.dtype;
  const std::string what = target.name() + names[static_cast<std::size_t>(kind)];
  const auto host = [](const Tensor& t) { return truth().to_host(t); };
  const Values at = host(x.truth), factor = host(up.truth), slope = host(dy.truth);
  const Values expected = host(truth().activate(kind, x.truth));
  const std::size_t n = at.size();
  Values y(n), gated(n), dx(n), dgate(n), dup(n);  // tolerances
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = activation_error(kind, at[i], expected[i], dtype);
    gated[i] = y[i] * std::abs(factor[i]) + rounding_bound_of_both(1, dtype) * std::abs(expected[i] * factor[i]);
    const double magnitude = slope_magnitude(kind, at[i]) * std::abs(slope[i]);
    const double error = slope_error(kind, at[i], magnitude, dtype);
    dx[i] = error + rounding_bound(1, dtype) * magnitude;
    dgate[i] = (error + rounding_bound_of_both(3, dtype) * magnitude) * std::abs(factor[i]);
    dup[i] = (y[i] + rounding_bound_of_both(2, dtype) * std::abs(expected[i])) * std::abs(slope[i]);
  }
  check_close(what, ops.to_host(ops.activate(kind, x.here)), expected, y);
  check_close(what + " gated", ops.to_host(ops.gated(kind, x.here, up.here)),
              host(truth().gated(kind, x.truth, up.truth)), gated);
  check_close(what + " dx", ops.to_host(ops.activate_backward(kind, x.here, dy.here)),
              host(truth().activate_backward(kind, x.truth, dy.truth)), dx);
  const GatedGradient g = ops.gated_backward(kind, x.here, up.here, dy.here);
  const GatedGradient e = truth().gated_backward(kind, x.truth, up.truth, dy.truth);
  check_close(what + " dgate", ops.to_host(g.dgate), host(e.dgate), dgate);
  check_close(what + " dup", ops.to_host(g.dup), host(e.dup), dup);
}

TEST_CASE("activations, gates and their gradients match the reference at odd sizes and all magnitudes") {
  Values values{0.0, -0.0, 1e-30, 50.0, 88.0, 89.0, 100.0, 708.0, 710.0, 1e3, 1e4};
  for (double x = 1e-12; x < 50.0; x *= 1.05) values.push_back(x);
  const std::size_t half = values.size();
  for (std::size_t i = 0; i < half; ++i) values.push_back(-values[i]);
  const auto n = static_cast<Index>(values.size());
  for (const Target& target : targets()) {
    for (const Activation kind : every_kind) {
      for (const Index rows : odd_sizes) {
        for (const Index cols : odd_sizes) {
          INFO("rows := ", rows, ", cols := ", cols);
          check_activation(target, kind, normal_twin(target, rows, cols, 30, 3.0), normal_twin(target, rows, cols, 31),
                           normal_twin(target, rows, cols, 33));
        }
      }
      check_activation(target, kind, twin_of(target, 1, n, values), normal_twin(target, 1, n, 31),
                       normal_twin(target, 1, n, 33));
    }
  }
}

TEST_CASE("activate: NaN propagates, so that divergence is detected") {
  const Values values(33, std::numeric_limits<double>::quiet_NaN());
  for (const Activation kind : every_kind) {
    CAPTURE(names[static_cast<std::size_t>(kind)]);
    for (const Target& target : targets_and_truth()) {
      CAPTURE(target.name());
      const Tensor y = target.backend->activate(kind, twin_of(target, 1, 33, values).here);
      CHECK(std::ranges::all_of(target.backend->to_host(y), [](double v) { return std::isnan(v); }));
    }
  }
}

}  // namespace
}  // namespace periscope::testing
