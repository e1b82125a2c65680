#include "sim/spec/weight.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "sim/spec/weight_scales.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

constexpr Weight all[] = {Weight::q,  Weight::k,    Weight::v,         Weight::o,          Weight::gate,
                          Weight::up, Weight::down, Weight::embedding, Weight::unembedding};

/// All sizes differ, so that swapping two is detected: D=12, H·e=40, kv·e=20, h=30, V=50.
StackSpec shapes() {
  StackSpec spec;
  spec.model.layers = 2;
  spec.model.width = 12;
  spec.model.heads = 4;
  spec.model.kv_heads = 2;
  spec.model.head_dim = 10;
  spec.model.mlp_width = 30;
  spec.model.vocab = 50;
  spec.input.second_moment = 9.0;
  return spec;
}

TEST_CASE("every initialization scheme gives every matrix its variance") {
  StackSpec spec = shapes();
  spec.init.std = 0.3;
  spec.init.factor = 5.0;
  for (const Weight weight : all) {
    if (weight == Weight::embedding) continue;
    const auto [out, in] = shape_of(spec.model, weight);
    CAPTURE(weight_names[static_cast<std::size_t>(weight)]);
    const auto variance = [&](InitScheme scheme) {
      spec.init.scheme = scheme;
      return std::pow(stddev_of(spec, 0, weight), 2);
    };
    CHECK(variance(InitScheme::normal) == approx(0.09).epsilon(1e-14));
    CHECK(variance(InitScheme::lecun) == approx(1.0 / in).epsilon(1e-14));
    CHECK(variance(InitScheme::he) == approx(2.0 / in).epsilon(1e-14));
    CHECK(variance(InitScheme::xavier) == approx(2.0 / (in + out)).epsilon(1e-14));
    CHECK(variance(InitScheme::scaled) == approx(5.0 / in).epsilon(1e-14));
    // Mitchell's rule truncates at 3 standard deviations, which leaves 97.3337 % of the variance.
    const bool writes = weight == Weight::o || weight == Weight::down;
    CHECK(variance(InitScheme::mitchell) == approx(0.97333692466254 / in / (writes ? 2.0 : 1.0)).epsilon(1e-12));
    const double layer_1 = std::pow(stddev_of(spec, 1, weight), 2);
    CHECK(layer_1 == approx(0.97333692466254 / in / (writes ? 4.0 : 1.0)).epsilon(1e-12));
  }
}

TEST_CASE("factors of init, and DeepNorm's (8L)^-1/4 or (2L)^-1/2, scale only their matrices") {
  struct Case {
    const char* what;
    void (*change)(StackSpec&);
    std::vector<Weight> scaled;
    double factor;
  };
  const std::vector<Weight> branch{Weight::v, Weight::o, Weight::up, Weight::down};
  for (const Case& row : {
           Case{"qk_factor 0", [](StackSpec& s) { s.init.qk_factor = 0.0; }, {Weight::q, Weight::k}, 0.0},
           {"qk_factor 2", [](StackSpec& s) { s.init.qk_factor = 2.0; }, {Weight::q, Weight::k}, 2.0},
           {"down_factor", [](StackSpec& s) { s.init.down_factor = 4.0; }, {Weight::down}, 4.0},
           {"o_factor", [](StackSpec& s) { s.init.o_factor = 4.0; }, {Weight::o}, 4.0},
           {"deepnorm", [](StackSpec& s) { s.model.placement = *find_placement("deepnorm"); }, branch, 0.5},
           {"deepnorm-glm", [](StackSpec& s) { s.model.placement = *find_placement("deepnorm-glm"); }, branch, 0.5},
       }) {
    CAPTURE(row.what);
    const StackSpec plain = shapes();
    StackSpec spec = plain;
    row.change(spec);
    for (const Weight weight : all) {
      CAPTURE(weight_names[static_cast<std::size_t>(weight)]);
      const bool is_scaled = std::ranges::find(row.scaled, weight) != row.scaled.end();
      CHECK(stddev_of(spec, 0, weight) == (is_scaled ? row.factor : 1.0) * stddev_of(plain, 0, weight));
    }
  }
}

TEST_CASE("init.residual scales only W_o and W_down, by an expression in L and l") {
  StackSpec spec = shapes();
  const StackSpec plain = spec;
  const auto check = [&](const char* text, double (*factor)(int addition)) {
    spec.init.residual = DepthExpression::parse(text).value();
    for (int layer = 0; layer < 2; ++layer) {
      for (const Weight weight : all) {
        const bool parallel = spec.model.steps() == 2;
        const int addition = parallel ? layer : 2 * layer + (weight == Weight::down ? 1 : 0);
        const bool writes = weight == Weight::o || weight == Weight::down;
        CAPTURE(weight_names[static_cast<std::size_t>(weight)]);
        CHECK(stddev_of(spec, layer, weight) ==
              approx((writes ? factor(addition) : 1.0) * stddev_of(plain, layer, weight)).epsilon(1e-15));
      }
    }
  };
  check("1/sqrt(2L)", [](int) { return 0.5; });
  check("1/(l+1)", [](int addition) { return 1.0 / (addition + 1); });
  spec.model.placement = *find_placement("parallel");
  check("1/(l+1)", [](int addition) { return 1.0 / (addition + 1); });
}

TEST_CASE("init.truncation multiplies standard deviations by the deviation of a truncated standard normal") {
  for (const double at : {0.1, 1.0, 2.0, 3.0, 50.0}) {
    // Moments of the truncated density by Simpson's rule.
    constexpr int steps = 2000;
    const double end = std::min(at, 12.0);
    double weight = 0.0;
    double square = 0.0;
    for (int i = 0; i <= steps; ++i) {
      const double x = end * (2.0 * i / steps - 1.0);
      const double density = (i % steps == 0 ? 1.0 : i % 2 == 1 ? 4.0 : 2.0) * std::exp(-0.5 * x * x);
      weight += density;
      square += density * x * x;
    }
    StackSpec spec = shapes();
    const StackSpec plain = spec;
    spec.init.truncation = at;
    CAPTURE(at);
    CHECK(truncation_factor(spec.init) == approx(std::sqrt(square / weight)).epsilon(1e-10));
    for (const Weight matrix : all) {
      const bool is_input = matrix == Weight::embedding;  // scaled by input.second_moment
      const double factor = is_input ? 1.0 : std::sqrt(square / weight);
      CHECK(stddev_of(spec, 0, matrix) == approx(factor * stddev_of(plain, 0, matrix)).epsilon(1e-10));
    }
    spec.init.scheme = InitScheme::mitchell;  // an explicit truncation takes precedence
    CHECK(truncation_factor(spec.init) == approx(std::sqrt(square / weight)).epsilon(1e-10));
  }
  CHECK(truncation_factor({}) == 1.0);
}

TEST_CASE("init.embedding_std, position_std and head_std set the standard deviations of the tables") {
  StackSpec spec = shapes();
  spec.init.head_std = 0.5;
  CHECK(stddev_of(spec, 0, Weight::unembedding) == 0.5);
  CHECK(stddev_of(spec, 0, Weight::q) == 0.02);
  CHECK(drawn_embedding_stddev(spec) == 0.02);  // head_std has no effect
  spec.init.embedding_std = 0.1;
  CHECK(drawn_embedding_stddev(spec) == 0.1);
  CHECK(stddev_of(spec, 0, Weight::embedding) == 3.0);  // a single table is scaled by input.second_moment
  spec.model.embedding = {.positions = 7, .token_types = 2};
  CHECK(stddev_of(spec, 0, Weight::embedding) == 0.1);
  CHECK(stddev_of(spec, 0, Weight::positions) == 0.1);
  spec.init.position_std = 0.3;
  CHECK(stddev_of(spec, 0, Weight::embedding) == 0.1);
  CHECK(stddev_of(spec, 0, Weight::positions) == 0.3);
  CHECK(stddev_of(spec, 0, Weight::token_types) == 0.1);
  spec.model.embedding = {.scale = 2.0};
  CHECK(stddev_of(spec, 0, Weight::embedding) == 0.1);
  spec.init.truncation = 1.0;
  CHECK(drawn_embedding_stddev(spec) == 0.1 * truncation_factor(spec.init));
  CHECK(stddev_of(spec, 0, Weight::embedding) == 0.1 * truncation_factor(spec.init));
  CHECK(stddev_of(spec, 0, Weight::unembedding) == 0.5 * truncation_factor(spec.init));
}

TEST_CASE("weight scales override init and gamma for single matrices and norms") {
  StackSpec spec = shapes();
  CHECK(gain_of(spec, 1, Weight::norm_a) == std::vector<double>(spec.model.width, spec.model.gamma));
  CHECK(bias_stddev_of(spec, matrix_id(0, Weight::q)) == 0.0);
  WeightScales scales;
  scales.stddev = {{matrix_id(0, Weight::q), 2.0},
                   {matrix_id(1, Weight::q), 3.0},
                   {bias_of(matrix_id(1, Weight::q)), 0.5},
                   {matrix_id(0, Weight::embedding), 4.0}};
  std::vector<double> gain(spec.model.width, 1.0);
  gain.back() = -2.0;
  scales.gains = {{gain_id(1, Weight::norm_a), gain}, {gain_id(3, Weight::norm_a), {1.0}}};
  spec.scales = std::make_shared<const WeightScales>(scales);
  CHECK(stddev_of(spec, 0, Weight::q) == 2.0);
  CHECK(stddev_of(spec, 1, Weight::q) == 3.0);
  CHECK(stddev_of(spec, 1, Weight::embedding) == 4.0);
  CHECK(bias_stddev_of(spec, matrix_id(0, Weight::q)) == 0.0);
  CHECK(bias_stddev_of(spec, matrix_id(1, Weight::q)) == 0.5);
  CHECK(gain_of(spec, 1, Weight::norm_a) == gain);
  CHECK_THROWS_AS((void)stddev_of(spec, 0, Weight::k), std::logic_error);
  CHECK_THROWS_AS((void)gain_of(spec, 2, Weight::norm_a), std::logic_error);
  CHECK_THROWS_AS((void)alpha_of(spec, 1, Weight::norm_a), std::logic_error);
  CHECK(alpha_of(StackSpec{}, 1, Weight::norm_a) == 0.5);
  CHECK_THROWS_AS((void)gain_of(spec, 3, Weight::norm_a), std::logic_error);  // one gain for D channels
}

}  // namespace
}  // namespace periscope
