#include "sim/spec/model_spec.h"

#include <cmath>
#include "sim/spec/weight.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

/// Returns the number of parameters in the matrices of all layers, without embedding tables.
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

TEST_CASE("presets have the parameter counts that their names state") {
  REQUIRE(presets.size() == 4);
  const auto [small, medium, large, largest] = presets;
  CHECK(small.name == "400M");
  CHECK(medium.name == "1.5B");
  CHECK(large.name == "3.2B");
  CHECK(std::round(parameters(small, small.kv_heads) / 1e5) == 4027);    // 402.7M
  CHECK(std::round(parameters(medium, medium.kv_heads) / 1e6) == 1510);  // 1.510B
  CHECK(std::round(parameters(large, large.kv_heads) / 1e6) == 3146);    // 3.146B
  // With as many key/value heads as query heads the counts would differ.
  CHECK(std::round(parameters(medium, medium.heads) / 1e6) == 1611);
  CHECK(std::round(parameters(large, large.heads) / 1e6) == 3355);
  for (const Preset& preset : presets) CHECK(preset.heads * preset.head_dim == preset.width);
}

TEST_CASE("RoPE frequencies and score rules have defaults, and layers may override them") {
  ModelSpec m;
  m.layers = 2;
  m.head_dim = 4;
  CHECK(m.rope_frequencies_at(1) == std::vector<double>{1.0, 0.01});
  m.attention = {{}, {.scores = {.window = 5}, .rope_frequencies = {2.0, 3.0}}};
  CHECK(m.rope_frequencies_at(0) == std::vector<double>{1.0, 0.01});
  CHECK(m.rope_frequencies_at(1) == std::vector<double>{2.0, 3.0});
  CHECK(m.scores_at(0).window == 0);
  CHECK(m.scores_at(1).window == 5);
  CHECK(m.rope_gains_at(1).empty());
  m.attention[1] = {.rope_frequencies = {2.0, 0.0}, .rope_scale = 1.5};
  CHECK(m.rope_gains_at(1) == std::vector<double>{1.5, 1.0});
  m.rope = false;
  CHECK(m.rope_gains_at(1).empty());
  CHECK(m.rope_frequencies_at(1).empty());
}

TEST_CASE("layers may override their heads and multiply the stream") {
  ModelSpec m;
  m.layers = 2;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 6;
  m.qk_norm = QkNorm::head;
  m.attention = {{}, {.head_dim = 10, .kv_heads = 1}};
  m.layer_scales = {0.5, -2.0};
  CHECK(shape_of(m, Weight::q, 0).fan_out == 24);
  CHECK(shape_of(m, Weight::q, 1).fan_out == 40);
  CHECK(shape_of(m, Weight::v, 1).fan_out == 10);
  CHECK(shape_of(m, Weight::o, 1).fan_in == 40);
  CHECK(norm_width(m, Weight::k_norm, 2) == 10);
  CHECK(m.rope_frequencies_at(1).size() == 5);
  CHECK(m.largest_query_width() == 40);
  CHECK(m.rule(2).alpha == m.rule(0).alpha);
  CHECK(m.rule(3).alpha == -4.0 * m.rule(1).alpha);
  CHECK(m.rule(3).beta == -4.0 * m.rule(1).beta);
}

TEST_CASE("the embedding width defaults to the stack width and determines the projection shapes") {
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

}  // namespace
}  // namespace periscope
