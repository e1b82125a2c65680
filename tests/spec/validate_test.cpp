#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/spec/model_spec.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int huge = (1 << 20) + 1;

/// Returns the message of validate, or "" if the spec is valid.
std::string rejection(const std::function<void(StackSpec&)>& edit) {
  StackSpec spec;
  edit(spec);
  try {
    validate(spec);
  } catch (const ConfigError& error) {
    CHECK(error.code() == ExitCode::configuration);
    return error.what();
  }
  return "";
}

struct Bad {
  std::string key;    ///< key in the message
  std::string value;  ///< value in the message
  std::function<void(StackSpec&)> edit;
};

TEST_CASE("invalid values are rejected by key and value, in one line") {
  const std::vector<Bad> table{
      {"model.layers", "0", [](StackSpec& s) { s.model.layers = 0; }},
      {"model.layers", "-3", [](StackSpec& s) { s.model.layers = -3; }},
      {"model.layers", "10001", [](StackSpec& s) { s.model.layers = 10001; }},
      {"model.width", "0", [](StackSpec& s) { s.model.width = 0; }},
      {"model.width", "1048577", [](StackSpec& s) { s.model.width = huge; }},
      {"model.heads", "0", [](StackSpec& s) { s.model.heads = 0; }},
      {"model.kv_heads", "0", [](StackSpec& s) { s.model.kv_heads = 0; }},
      {"model.kv_heads", "3", [](StackSpec& s) { s.model.kv_heads = 3; }},
      {"model.kv_heads", "16", [](StackSpec& s) { s.model.kv_heads = 16; }},
      {"model.head_dim", "0", [](StackSpec& s) { s.model.head_dim = 0; }},
      {"model.head_dim", "7", [](StackSpec& s) { s.model.head_dim = 7; }},
      {"model.heads", "8", [](StackSpec& s) { s.model.head_dim = 1 << 18; }},
      {"model.mlp_width", "0", [](StackSpec& s) { s.model.mlp_width = 0; }},
      {"model.norm_eps", "-1e-06", [](StackSpec& s) { s.model.norm_eps = -1e-6; }},
      {"model.norm_eps", "nan", [](StackSpec& s) { s.model.norm_eps = nan; }},
      {"model.gamma", "inf", [](StackSpec& s) { s.model.gamma = infinity; }},
      {"model.vocab", "0", [](StackSpec& s) { s.model.vocab = 0; }},
      {"model.width", "1", [](StackSpec& s) { s.model.norm = NormKind::layer, s.model.width = 1; }},
      {"model.placement.alpha", "nan", [](StackSpec& s) { s.model.placement = custom_placement({.alpha = nan}); }},
      {"model.placement.beta", "inf", [](StackSpec& s) { s.model.placement = custom_placement({.beta = infinity}); }},
      {"model.layer_placement.layers", "\"1-2\"",
       [](StackSpec& s) {
         s.model.layer_placements = {{.first = 2, .last = 4, .v_norm = true}, {.first = 1, .last = 2, .v_norm = false}};
       }},
      {"init.std", "-0.02", [](StackSpec& s) { s.init.std = -0.02; }},
      {"init.factor", "-1", [](StackSpec& s) { s.init.factor = -1; }},
      {"init.o_factor", "-1", [](StackSpec& s) { s.init.o_factor = -1; }},
      {"init.o_factor", "0.5", [](StackSpec& s) { s.init.o_factor = 0.5, s.init.residual = 0.5; }},
      {"init.down_factor", "2", [](StackSpec& s) { s.init.down_factor = 2, s.init.residual = 0.5; }},
      {"init.scheme", "\"mitchell\"",
       [](StackSpec& s) { s.init.scheme = InitScheme::mitchell, s.init.residual = 0.5; }},
      {"init.residual", "-1", [](StackSpec& s) { s.init.residual = -1.0; }},
      {"init.residual", "\"1/sqrt(l)\"", [](StackSpec& s) { s.init.residual = *DepthExpression::parse("1/sqrt(l)"); }},
      {"init.residual", "\"\\x0a-l\"", [](StackSpec& s) { s.init.residual = *DepthExpression::parse("\n-l"); }},
      {"init.residual", "\"40-l\"", [](StackSpec& s) { s.init.residual = *DepthExpression::parse("40-l"); }},
      {"init.truncation", "0.05", [](StackSpec& s) { s.init.truncation = 0.05; }},
      {"init.embedding_std", "0", [](StackSpec& s) { s.init.embedding_std = 0.0; }},
      {"init.head_std", "nan", [](StackSpec& s) { s.init.head_std = nan; }},
      {"init.position_std", "-1", [](StackSpec& s) { s.init.position_std = -1.0; }},
      {"init.qk_factor", "nan", [](StackSpec& s) { s.init.qk_factor = nan; }},
      {"input.tokens", "0", [](StackSpec& s) { s.input.tokens = 0; }},
      {"input.second_moment", "0", [](StackSpec& s) { s.input.second_moment = 0; }},
      {"input.second_moment", "inf", [](StackSpec& s) { s.input.second_moment = infinity; }},
      {"input.correlation", "1.5", [](StackSpec& s) { s.input.correlation = 1.5; }},
      {"input.correlation", "-0.1", [](StackSpec& s) { s.input.correlation = -0.1; }},
      {"input.path", "\"\"", [](StackSpec& s) { s.input.kind = InputKind::text; }},
      {"model.vocab", "255",
       [](StackSpec& s) { s.input.kind = InputKind::text, s.input.path = "text", s.model.vocab = 255; }},
  };
  for (const Bad& bad : table) {
    const std::string message = rejection(bad.edit);
    INFO("bad.key := ", bad.key, ", message := ", message);
    CHECK(message.starts_with(bad.key + " = " + bad.value + ": "));
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("overlapping layer ranges are rejected if both set the same key") {
  const std::vector<LayerPlacement> keys{{.placement = *find_placement("peri")},
                                         {.qk_norm = QkNorm::head},
                                         {.v_norm = true},
                                         {.inner_norm = InnerNorm::o},
                                         {.attention_gate = AttentionGate::head}};
  for (std::size_t one = 0; one < keys.size(); ++one) {
    for (std::size_t other = 0; other < keys.size(); ++other) {
      INFO("one := ", one, ", other := ", other);
      const std::string message = rejection([&](StackSpec& s) {
        s.model.layer_placements = {keys[one], keys[other]};
        for (LayerPlacement& range : s.model.layer_placements) range.last = 1;
      });
      CHECK(message.starts_with("model.layer_placement.layers = \"0-1\": ") == (one == other));
    }
  }
}

TEST_CASE("values at the limits are valid") {
  const std::vector<std::function<void(StackSpec&)>> table{
      [](StackSpec&) {},
      [](StackSpec& s) { s.model.layers = 1; },
      [](StackSpec& s) { s.model.layers = 10000; },
      [](StackSpec& s) { s.model.width = 1; },
      [](StackSpec& s) { s.model.kv_heads = 1; },
      [](StackSpec& s) { s.model.head_dim = 7, s.model.rope = false; },
      [](StackSpec& s) { s.model.heads = s.model.kv_heads = 1 << 10, s.model.head_dim = 1 << 10; },
      [](StackSpec& s) { s.model.norm_eps = 0; },
      [](StackSpec& s) { s.model.gamma = 0; },
      [](StackSpec& s) { s.model.gamma = -1; },
      [](StackSpec& s) { s.init.std = 0; },
      [](StackSpec& s) { s.init.qk_factor = 0; },
      [](StackSpec& s) { s.input.tokens = 1; },
      [](StackSpec& s) { s.input.correlation = 1; },
      [](StackSpec& s) { s.input.kind = InputKind::text, s.input.path = "text", s.model.vocab = 256; },
  };
  for (const auto& edit : table) CHECK(rejection(edit).empty());
}

}  // namespace
}  // namespace periscope
