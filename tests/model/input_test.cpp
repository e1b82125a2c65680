#include "sim/model/input.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/significance.h"

namespace periscope::testing {
namespace {

StackSpec wide(double second_moment, double correlation) {
  StackSpec spec = tiny_stack();
  spec.model.width = 4096;
  spec.input.tokens = 3;
  spec.input.second_moment = second_moment;
  spec.input.correlation = correlation;
  return spec;
}

/// Estimates the mean over features of x_a x_b for tokens a and b.
Estimate mean_product(const std::vector<double>& x, std::size_t a, std::size_t b, std::size_t width) {
  std::vector<double> products(width);
  for (std::size_t i = 0; i < width; ++i) products[i] = x[a * width + i] * x[b * width + i];
  return estimate(products);
}

TEST_CASE("Gaussian input has the configured second moment and correlation, and depends on the seed") {
  for (const double correlation : {0.0, 0.3, 0.9, 1.0}) {
    const std::vector<double> x = truth().to_host(gaussian_input(truth(), wide(2.5, correlation), DType::f64, 7));
    for (std::size_t t = 0; t < 3; ++t) {
      for (std::size_t s = 0; s <= t; ++s) {
        check_consistent("product of two tokens", mean_product(x, t, s, 4096), 2.5 * (t == s ? 1.0 : correlation));
      }
    }
    CHECK(truth().to_host(gaussian_input(truth(), wide(2.5, correlation), DType::f64, 8)) != x);
  }
}

TEST_CASE("generated weights: every matrix is drawn from the random stream of its layer and weight") {
  const StackSpec spec = tiny_stack();
  const GeneratedWeights weights(truth(), spec, DType::f64, 5);
  const auto matrix = [&](int layer, Weight weight) {
    return truth().to_host(matrix_of(weights, spec.model, layer, weight));
  };
  CHECK(matrix(1, Weight::up) == matrix(1, Weight::up));
  CHECK(matrix(1, Weight::up) != matrix(0, Weight::up));
  CHECK(matrix(1, Weight::up) != matrix(1, Weight::gate));
  const StreamKey key{.seed = 5, .layer = 1, .stream = stream_of(Weight::down)};
  CHECK(matrix(1, Weight::down) == truth().to_host(truth().normal(12, 10, DType::f64, key, std::sqrt(0.1))));
}

TEST_CASE("generated norms have gain gamma, QK-norms have gain 1, and only LayerNorm has biases, which are 0") {
  StackSpec spec = tiny_stack();
  spec.model.qk_norm = QkNorm::full;
  spec.model.placement = custom_placement({.norm_a = true, .norm_b = true, .norm_c = true});
  spec.model.embedding_norm = spec.model.final_norm = true;
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    spec.model.norm = kind;
    const GeneratedWeights weights(truth(), spec, DType::f64, 5);
    for (const Weight site :
         {Weight::norm_a, Weight::norm_b, Weight::norm_c, Weight::embedding_norm, Weight::final_norm}) {
      const NormWeights w = norm_of(weights, spec.model, 1, site);
      CHECK(truth().to_host(w.gain) == std::vector<double>(12, 0.8));
      CHECK(w.bias.empty() == (kind == NormKind::rms));
      if (!w.bias.empty()) CHECK(truth().to_host(w.bias) == std::vector<double>(12, 0.0));
    }
    CHECK(truth().to_host(norm_of(weights, spec.model, 0, Weight::q_norm).gain) == std::vector<double>(24, 1.0));
    CHECK(truth().to_host(norm_of(weights, spec.model, 0, Weight::k_norm).gain) == std::vector<double>(12, 1.0));
  }
}

}  // namespace
}  // namespace periscope::testing
