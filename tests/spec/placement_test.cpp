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

/// The table of placements (T1) for 8 layers, where the roots are exact: (2·8)^¼ = 2, (2·8)^½ = 4.
struct Row {
  std::string_view name;
  bool final_norm;
  bool two_streams;
  std::vector<SublayerRule> layers;
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

TEST_CASE("named placements equal the placement table (T1); a former name is an alias, other names are unknown") {
  CHECK_FALSE(find_placement("Peri").has_value());
  CHECK(find_placement("residual").value().name == "residual-dual");
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

TEST_CASE("only DeepNorm changes the initialization: (8L)^-1/4 for DeepNet, (2L)^-1/2 for GLM-130B") {
  for (const Placement& placement : placement_table()) {
    const bool deepnorm = placement.name == "deepnorm" || placement.name == "deepnorm-glm";
    CHECK((placement.branch_init_gain != nullptr) == deepnorm);
  }
  CHECK(find_placement("deepnorm-glm")->branch_init_gain(8) == 0.25);
  CHECK(find_placement("deepnorm-glm")->branch_init_gain(70) == approx(1.0 / std::sqrt(140.0)).epsilon(1e-15));
  CHECK(find_placement("deepnorm")->branch_init_gain(2) == 0.5);
  CHECK(find_placement("deepnorm")->branch_init_gain(24) == approx(std::pow(192.0, -0.25)).epsilon(1e-15));
}

TEST_CASE("Mix-LN: the first floor(L/4) layers are Post-LN") {
  for (const int layers : {1, 3, 4, 7, 8, 9, 24, 26}) {
    const int post = layers / 4;
    for (int layer = 0; layer < layers; ++layer) {
      INFO("layers := ", layers, ", layer := ", layer);
      CHECK(find_placement("mix")->at({.layer = layer, .layers = layers}) == (layer < post ? c : a));
    }
  }
}

TEST_CASE("custom placements get a final norm by the rule for named placements, or if a part has one") {
  for (const Row& row : t1) {
    if (row.two_streams || row.name == "mix") continue;
    CAPTURE(row.name);
    CHECK(custom_placement(row.layers[0]).defaults.final_norm == row.final_norm);
  }
  const auto final_norm = [](const char* attention, const char* mlp) {
    FreeForm form;
    form.attention = std::make_shared<const Placement>(*find_placement(attention));
    form.mlp = std::make_shared<const Placement>(*find_placement(mlp));
    return free_placement(form).defaults.final_norm;
  };
  CHECK(final_norm("pre", "none"));
  CHECK(final_norm("none", "pre"));
  CHECK_FALSE(final_norm("none", "post"));
}

TEST_CASE("a scale expression that is not finite for some l is rejected; the message quotes it and that l") {
  const auto alpha = [](const char* expression, int l, int layers) {
    const Placement placement = free_placement(FreeForm{.alpha = DepthExpression::parse(expression)});
    return placement.at({.layers = layers, .addition = l}).alpha;
  };
  CHECK_THROWS_WITH_AS((void)alpha("1/sqrt(l)", 0, 2), doctest::Contains("model.placement.alpha = \"1/sqrt(l)\""),
                       ConfigError);
  CHECK_THROWS_WITH_AS((void)alpha("0/0", 0, 2), doctest::Contains("l = 0"), ConfigError);
  CHECK_THROWS_AS((void)alpha("1/(L-1)", 1, 1), ConfigError);
  CHECK(alpha("1/(L-1)", 0, 2) == 1.0);
}

TEST_CASE("a custom placement may differ between attention and MLP and have scales in L and l") {
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

TEST_CASE("layer ranges override placement and norms; overlapping ranges may set different keys") {
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
