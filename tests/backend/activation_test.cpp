#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Index = Tensor::Index;
constexpr Activation every_kind[] = {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh,
                                     Activation::sigmoid};
const std::string names[] = {" relu", " gelu", " silu", " gelu_tanh", " sigmoid"};

void check_activation(const Target& target, Activation kind, const Twin& x, const Twin& up) {
  const std::string what = target.name() + names[static_cast<std::size_t>(kind)];
  const std::vector<double> at = truth().to_host(x.truth);
  const std::vector<double> expected = truth().to_host(truth().activate(kind, x.truth));
  std::vector<double> allowed(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) allowed[i] = activation_error(kind, at[i], expected[i], target.dtype);
  check_close(what, target.backend->to_host(target.backend->activate(kind, x.here)), expected, allowed);

  const std::vector<double> factor = truth().to_host(up.truth);
  const std::vector<double> product = truth().to_host(truth().gated(kind, x.truth, up.truth));
  for (std::size_t i = 0; i < at.size(); ++i) {
    allowed[i] = allowed[i] * std::abs(factor[i]) + rounding_bound_of_both(1, target.dtype) * std::abs(product[i]);
  }
  check_close(what + " gated", target.backend->to_host(target.backend->gated(kind, x.here, up.here)), product, allowed);
}

TEST_CASE("activate and gated: odd sizes") {
  for (const Target& target : targets()) {
    for (const Activation kind : every_kind) {
      for (const Index rows : odd_sizes) {
        for (const Index cols : odd_sizes) {
          CAPTURE(rows);
          CAPTURE(cols);
          check_activation(target, kind, normal_twin(target, rows, cols, 30, 3.0), normal_twin(target, rows, cols, 31));
        }
      }
    }
  }
}

TEST_CASE("activate and gated: all magnitudes, both signs") {
  std::vector<double> values{0.0, 50.0, 88.0, 89.0, 100.0, 708.0, 710.0, 1e3, 1e4};
  for (double x = 1e-12; x < 50.0; x *= 1.17) values.push_back(x);
  const std::size_t half = values.size();
  for (std::size_t i = 0; i < half; ++i) values.push_back(-values[i]);
  const auto n = static_cast<Index>(values.size());
  for (const Target& target : targets()) {
    for (const Activation kind : every_kind) {
      check_activation(target, kind, twin_of(target, 1, n, values), normal_twin(target, 1, n, 31));
    }
  }
}

bool all_nan(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double y) { return std::isnan(y); });
}

// A diverged stack must not look healthy.
TEST_CASE("activate: NaN propagates") {
  const std::vector<double> values(33, std::numeric_limits<double>::quiet_NaN());
  for (const Activation kind : every_kind) {
    CAPTURE(names[static_cast<std::size_t>(kind)]);
    for (const Target& target : targets()) {
      CAPTURE(target.name());
      CHECK(all_nan(target.backend->to_host(target.backend->activate(kind, twin_of(target, 1, 33, values).here))));
    }
    CHECK(all_nan(truth().to_host(truth().activate(kind, truth().from_host(1, 33, DType::f64, values)))));
  }
}

}  // namespace
}  // namespace periscope::testing
