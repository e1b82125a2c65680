#include "sim/spec/model_spec.h"

#include <cmath>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

/// Parameters of the matrices of all layers, without the embedding tables.
double parameters(const Preset& preset, int kv_heads) {
  ModelSpec m;
  preset.set_shape(m);
  m.kv_heads = kv_heads;
  double count = 0.0;
  for (const Weight weight : {Weight::q, Weight::k, Weight::v, Weight::o, Weight::gate, Weight::up, Weight::down}) {
    const auto [out, in] = shape_of(m, weight);
    count += static_cast<double>(out) * in;
  }
  return m.layers * count;
}

TEST_CASE("presets have the paper's shapes and the parameter counts that their names state") {
  REQUIRE(presets.size() == 4);
  const auto [small, medium, large, largest] = presets;
  CHECK(small.name == "400M");
  CHECK(medium.name == "1.5B");
  CHECK(large.name == "3.2B");
  CHECK(std::round(parameters(small, small.kv_heads) / 1e5) == 4027);    // 402.7M
  CHECK(std::round(parameters(medium, medium.kv_heads) / 1e6) == 1510);  // 1.510B
  CHECK(std::round(parameters(large, large.kv_heads) / 1e6) == 3146);    // 3.146B
  // With as many key/value heads as query heads the counts would be others.
  CHECK(std::round(parameters(small, small.heads) / 1e5) == 4027);
  CHECK(std::round(parameters(medium, medium.heads) / 1e6) == 1611);
  CHECK(std::round(parameters(large, large.heads) / 1e6) == 3355);
  for (const Preset& preset : presets) CHECK(preset.heads * preset.head_dim == preset.width);
}

TEST_CASE("MLP kinds: their activation, and which are gated") {
  CHECK(activation_of(MlpKind::relu) == Activation::relu);
  CHECK(activation_of(MlpKind::gelu) == Activation::gelu);
  CHECK(activation_of(MlpKind::silu) == Activation::silu);
  CHECK(activation_of(MlpKind::swiglu) == Activation::silu);
  CHECK(activation_of(MlpKind::geglu) == Activation::gelu);
  CHECK(activation_of(MlpKind::geglu_tanh) == Activation::gelu_tanh);
  for (const MlpKind kind : {MlpKind::relu, MlpKind::gelu, MlpKind::silu, MlpKind::gelu_tanh}) {
    CHECK_FALSE(is_gated(kind));
  }
  for (const MlpKind kind : {MlpKind::swiglu, MlpKind::geglu, MlpKind::geglu_tanh}) CHECK(is_gated(kind));
}

TEST_CASE("RoPE frequencies: the plain ones, or those of the layer's rule") {
  ModelSpec m;
  m.layers = 2;
  m.head_dim = 4;
  CHECK(m.rope_frequencies_at(1) == std::vector<double>{1.0, 0.01});
  m.attention = {{}, {.scores = {.window = 5}, .rope_frequencies = {2.0, 3.0}}};
  CHECK(m.rope_frequencies_at(0) == std::vector<double>{1.0, 0.01});
  CHECK(m.rope_frequencies_at(1) == std::vector<double>{2.0, 3.0});
  CHECK(m.scores_at(0).window == 0);
  CHECK(m.scores_at(1).window == 5);
  m.rope = false;
  CHECK(m.rope_frequencies_at(1).empty());
}

TEST_CASE("the embedding's width is the stack's unless it has its own, and then the shapes around it follow") {
  ModelSpec m;
  CHECK(m.embedding_width() == m.width);
  CHECK_FALSE(m.projects_embedding());
  m.embedding.width = 7;
  CHECK(m.projects_embedding());
  CHECK(shape_of(m, Weight::embedding).fan_in == 7);
  CHECK(shape_of(m, Weight::unembedding).fan_in == 7);
  CHECK(shape_of(m, Weight::project_in).fan_out == m.width);
  CHECK(shape_of(m, Weight::project_out).fan_out == 7);
}

TEST_CASE("the defaults are those of the command-line contract") {
  const StackSpec spec;
  CHECK(spec.model.layers == 24);
  CHECK(spec.model.width == 1024);
  CHECK(spec.model.heads * spec.model.head_dim == 1024);
  CHECK(spec.model.norm_eps == 1e-6);
  CHECK(spec.model.placement.name == "peri");
  CHECK(spec.model.final_norm);
  CHECK(spec.init.scheme == InitScheme::normal);
  CHECK(spec.init.std == 0.02);
  CHECK(spec.input.tokens == 128);
  CHECK_NOTHROW(validate(spec));
}

TEST_CASE("names stand in the order of their enumerators") {
  CHECK(norm_kind_names[static_cast<std::size_t>(NormKind::layer)] == "layer");
  CHECK(mlp_kind_names[static_cast<std::size_t>(MlpKind::geglu)] == "geglu");
  CHECK(mlp_kind_names[static_cast<std::size_t>(MlpKind::geglu_tanh)] == "geglu_tanh");
  CHECK(qk_norm_names[static_cast<std::size_t>(QkNorm::full)] == "full");
  CHECK(init_scheme_names[static_cast<std::size_t>(InitScheme::scaled)] == "scaled");
  CHECK(input_kind_names[static_cast<std::size_t>(InputKind::text)] == "text");
  CHECK(weight_names[static_cast<std::size_t>(Weight::unembedding)] == "unembedding");
  CHECK(weight_names[static_cast<std::size_t>(Weight::head_dense)] == "head_dense");
  CHECK(name_of(Signal::r_out) == "r_out");
  CHECK(statistic_names[static_cast<std::size_t>(Statistic::branch_cosine)] == "branch_cosine");
}

TEST_CASE("errors carry the exit code of the command-line contract") {
  CHECK(static_cast<int>(ConfigError("").code()) == 2);
  CHECK(static_cast<int>(InputError("").code()) == 3);
  CHECK(static_cast<int>(ExitCode::check_failed) == 4);
  CHECK(static_cast<int>(ExitCode::diverged) == 5);
  CHECK(static_cast<int>(ExitCode::stopped_early) == 75);
}

TEST_CASE("a profile finds its curves, or nothing") {
  Profile profile;
  profile.curves[{Statistic::variance, Signal::x_out}] = {{1.0}, {0.1}};
  REQUIRE(profile.find(Statistic::variance, Signal::x_out) != nullptr);
  CHECK(profile.find(Statistic::variance, Signal::x_out)->value[0] == 1.0);
  CHECK(profile.find(Statistic::variance, Signal::x_in) == nullptr);
  CHECK(profile.find(Statistic::mean, Signal::x_out) == nullptr);
}

}  // namespace
}  // namespace periscope
