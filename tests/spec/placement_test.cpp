#include "sim/spec/placement.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/spec/model_spec.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

constexpr SublayerRule bare{};
constexpr SublayerRule a{.norm_a = true};
constexpr SublayerRule ab{.norm_a = true, .norm_b = true};
constexpr SublayerRule b{.norm_b = true};
constexpr SublayerRule c{.norm_c = true};
constexpr SublayerRule ac{.norm_a = true, .norm_c = true};

/// T1's table, typed again. Eight layers make DeepNorm's and depth scaling's roots whole: (2·8)^¼ = 2, (2·8)^½ = 4.
struct Row {
  std::string_view name;
  bool final_norm;
  bool two_streams;
  std::vector<SublayerRule> layers;  // of a stack of eight
};

SublayerRule lns(int layer_from_1) { return {.norm_a = true, .input_gain = 1.0 / std::sqrt(layer_from_1)}; }

const std::vector<Row> t1{
    {"none", false, false, std::vector(8, bare)},
    {"post", false, false, std::vector(8, c)},
    {"pre", true, false, std::vector(8, a)},
    {"peri", true, false, std::vector(8, ab)},
    {"b-only", true, false, std::vector(8, b)},
    {"a+c", false, false, std::vector(8, ac)},
    {"deepnorm", false, false, std::vector(8, SublayerRule{.norm_c = true, .alpha = 2.0})},
    {"deepnorm-glm", false, false, std::vector(8, SublayerRule{.norm_c = true, .alpha = 4.0})},
    {"mix", true, false, {c, c, a, a, a, a, a, a}},
    {"lns", true, false, {lns(1), lns(2), lns(3), lns(4), lns(5), lns(6), lns(7), lns(8)}},
    {"depth-scaled", true, false, std::vector(8, SublayerRule{.norm_a = true, .beta = 0.25})},
    {"residual-dual", true, true, std::vector(8, c)},
};

TEST_CASE("every row of T1's table") {
  REQUIRE(placement_table().size() > t1.size());
  for (std::size_t i = 0; i < t1.size(); ++i) {
    const Row& row = t1[i];
    const Placement& placement = placement_table()[i];
    CAPTURE(row.name);
    CHECK(placement.name == row.name);
    CHECK(placement.defaults.final_norm == row.final_norm);
    CHECK((placement.wiring == Wiring::dual) == row.two_streams);
    CHECK_FALSE(placement.is_custom());
    for (int layer = 0; layer < 8; ++layer) {
      CAPTURE(layer);
      CHECK(placement.at({.layer = layer, .layers = 8}) == row.layers[static_cast<std::size_t>(layer)]);
    }
  }
}

TEST_CASE("GLM-130B's constants are not DeepNet's") {
  CHECK(find_placement("deepnorm-glm")->used_by == "GLM-130B");
  CHECK(find_placement("deepnorm")->used_by.find("GLM") == std::string_view::npos);
  CHECK(find_placement("deepnorm-glm")->at({.layer = 0, .layers = 70}).alpha ==
        doctest::Approx(std::sqrt(140.0)).epsilon(1e-15));
}

TEST_CASE("a former name finds its row, which answers with its name of today") {
  const std::optional<Placement> former = find_placement("residual");
  REQUIRE(former.has_value());
  CHECK(former->name == "residual-dual");
  CHECK(former->wiring == Wiring::dual);
}

TEST_CASE("scales at another depth") {
  CHECK(find_placement("deepnorm")->at({.layer = 0, .layers = 24}).alpha ==
        doctest::Approx(std::pow(48.0, 0.25)).epsilon(1e-15));
  CHECK(find_placement("depth-scaled")->at({.layer = 23, .layers = 24}).beta ==
        doctest::Approx(1.0 / std::sqrt(48.0)).epsilon(1e-15));
  CHECK(find_placement("lns")->at({.layer = 24, .layers = 25}).input_gain == 0.2);
}

TEST_CASE("DeepNorm alone changes the initialisation: DeepNet's by (8L)^-1/4, GLM-130B's by (2L)^-1/2") {
  for (const Placement& placement : placement_table()) {
    const bool deepnorm = placement.name == "deepnorm" || placement.name == "deepnorm-glm";
    CHECK((placement.branch_init_gain != nullptr) == deepnorm);
  }
  CHECK(find_placement("deepnorm-glm")->branch_init_gain(8) == 0.25);
  CHECK(find_placement("deepnorm-glm")->branch_init_gain(70) == doctest::Approx(1.0 / std::sqrt(140.0)).epsilon(1e-15));
  CHECK(find_placement("deepnorm")->branch_init_gain(2) == 0.5);
  CHECK(find_placement("deepnorm")->branch_init_gain(24) == doctest::Approx(std::pow(192.0, -0.25)).epsilon(1e-15));
}

TEST_CASE("Mix-LN: the first floor(L/4) layers are Post") {
  for (const int layers : {1, 3, 4, 7, 8, 9, 24, 26}) {
    const int post = layers / 4;
    for (int layer = 0; layer < layers; ++layer) {
      CAPTURE(layers);
      CAPTURE(layer);
      CHECK(find_placement("mix")->at({.layer = layer, .layers = layers}) == (layer < post ? c : a));
    }
  }
}

TEST_CASE("a stack's sublayers: two per layer, attention first, both under the layer's rule") {
  ModelSpec m;
  m.layers = 8;
  m.placement = *find_placement("lns");
  CHECK(m.sublayers() == 16);
  for (int l = 0; l < 16; ++l) {
    CHECK(ModelSpec::is_attention(l) == (l % 2 == 0));
    CHECK(m.rule(l) == lns(l / 2 + 1));
  }
}

TEST_CASE("names that are not in the table") {
  CHECK_FALSE(find_placement("Peri").has_value());
  CHECK_FALSE(find_placement("").has_value());
  CHECK_FALSE(find_placement("custom").has_value());
}

TEST_CASE("the free form holds what it is given at every layer") {
  const SublayerRule rule{.norm_b = true, .alpha = 0.5, .beta = 2.0};
  const Placement placement = custom_placement(rule);
  CHECK(placement.is_custom());
  CHECK(placement.wiring == Wiring::sequential);
  CHECK((placement.branch_init_gain == nullptr));
  for (const int layer : {0, 1, 7}) CHECK(placement.at({.layer = layer, .layers = 8}) == rule);
}

TEST_CASE("the free form's final norm follows the rule of the named rows") {
  for (const Row& row : t1) {
    if (row.two_streams || row.name == "mix") continue;
    CAPTURE(row.name);
    CHECK(custom_placement(row.layers[0]).defaults.final_norm == row.final_norm);
  }
}

TEST_CASE("a final norm follows if the placement of either kind of module has one") {
  const auto final_norm = [](const char* attention, const char* mlp) {
    FreeForm form;
    form.attention = std::make_shared<const Placement>(*find_placement(attention));
    form.mlp = std::make_shared<const Placement>(*find_placement(mlp));
    return free_placement(form).defaults.final_norm;
  };
  CHECK(final_norm("pre", "none"));
  CHECK(final_norm("none", "pre"));
  CHECK(final_norm("pre", "peri"));
  CHECK_FALSE(final_norm("none", "post"));
}

TEST_CASE("an expression without a finite value: the message has the expression and the first l") {
  const auto alpha = [](const char* expression, int l, int layers) {
    const Placement placement = free_placement(FreeForm{.alpha = DepthExpression::parse(expression)});
    return placement.at({.layers = layers, .addition = l}).alpha;
  };
  CHECK_THROWS_WITH_AS((void)alpha("1/sqrt(l)", 0, 2),
                       "model.placement.alpha = \"1/sqrt(l)\": expected a finite number for every l; it is infinite at "
                       "l = 0, L = 2, where l counts earlier additions from 0",
                       ConfigError);
  CHECK_THROWS_WITH_AS((void)alpha("0/0", 0, 2),
                       doctest::Contains("\"0/0\": expected a finite number for every l; it is NaN at l = 0"),
                       ConfigError);
  CHECK_THROWS_AS((void)alpha("1/(L-1)", 1, 1), ConfigError);
  CHECK(alpha("1/sqrt(l)", 1, 2) == 1.0);
  CHECK(alpha("1/(L-1)", 0, 2) == 1.0);
}

TEST_CASE("scales that go with the additions before: KEEL, Beam and u-muP, typed again") {
  const auto at = [](const char* name, int l, int layers) {
    ModelSpec m;
    m.layers = layers;
    m.placement = *find_placement(name);
    return m.rule(l);
  };
  CHECK(at("keel", 1, 8) == a);
  CHECK(at("keel", 2, 8) == SublayerRule{.norm_a = true, .norm_c = true, .alpha = 16.0});
  // Beam: x_n = (x_1 + sum of n - 1 branches)/sqrt(n), so the scales multiply to 1/sqrt(n).
  double beam = 1.0;
  for (int l = 0; l < 16; ++l) {
    const SublayerRule rule = at("beam", l, 8);
    beam *= rule.alpha;
    CHECK(rule.beta == doctest::Approx(1.0 / std::sqrt(l + 2.0)).epsilon(1e-15));
    CHECK(beam == doctest::Approx(rule.beta).epsilon(1e-14));
  }
  // u-muP: with tau_l^2 = 1/(L + l) every branch has the weight 1/sqrt(3L) in the end, the embedding sqrt(1/3).
  double kept = 1.0;
  for (int l = 15; l >= 0; --l) {
    const SublayerRule rule = at("u-mup", l, 8);
    CHECK(rule.beta * kept == doctest::Approx(1.0 / std::sqrt(24.0)).epsilon(1e-14));
    kept *= rule.alpha;
  }
  CHECK(kept == doctest::Approx(std::sqrt(1.0 / 3.0)).epsilon(1e-14));
}

TEST_CASE("a free form with one placement for each kind of module, and scales in L and l") {
  FreeForm form;
  form.attention = std::make_shared<const Placement>(*find_placement("peri"));
  form.mlp = std::make_shared<const Placement>(free_placement(FreeForm{
      .rule = {.norm_c = true}, .alpha = DepthExpression::parse("2L"), .beta = DepthExpression::parse("1/(l+1)")}));
  ModelSpec m;
  m.layers = 8;
  m.placement = free_placement(form, "mine");
  CHECK(m.rule(4) == ab);
  CHECK(m.rule(5) == SublayerRule{.norm_c = true, .alpha = 16.0, .beta = 1.0 / 6.0});
}

TEST_CASE("a range of layers has another placement and norms of its own; ranges overlap where they set unlike keys") {
  ModelSpec m;
  m.layers = 8;
  m.placement = *find_placement("pre");
  m.layer_placements = {{.first = 0, .last = 3, .placement = *find_placement("post"), .qk_norm = QkNorm::head},
                        {.first = 4, .last = 4, .placement = *find_placement("peri")},
                        {.first = 3, .last = 4, .v_norm = true}};
  CHECK(m.rule(0) == c);
  CHECK(m.rule(5) == c);
  CHECK(m.rule(7) == c);
  CHECK(m.rule(8) == ab);
  CHECK(m.rule(9) == ab);
  CHECK(m.rule(10) == a);
  CHECK(m.qk_norm_at(3) == QkNorm::head);
  CHECK(m.qk_norm_at(4) == QkNorm::none);
  CHECK_FALSE(m.v_norm_at(2));
  CHECK(m.v_norm_at(4));
}

}  // namespace
}  // namespace periscope
