#include <fmt/format.h>

#include <numeric>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

const std::string neox_embedding = "gpt_neox.embed_in.weight";

/// Each head's queries, keys and values are adjacent in one fused matrix. Only the first features of a head rotate.
void map_layer(ParameterMap& map, const ModelSpec& m, int layer, bool biases) {
  const std::string stem = fmt::format("gpt_neox.layers.{}.", layer);
  std::vector<std::int64_t> unpermuted(static_cast<std::size_t>(m.head_dim));
  std::iota(unpermuted.begin(), unpermuted.end(), 0);
  const auto fused = [&](Weight weight, std::int64_t third, const std::vector<std::int64_t>& order) {
    const auto part = [&](const std::string& name) -> StoredPart {
      return {.tensor = stem + "attention.query_key_value." + name,
              .first = third * m.head_dim,
              .order = order,
              .stride = 3L * m.head_dim};
    };
    map.set(layer, weight, part("weight"));
    if (biases) map.set_bias(layer, weight, part("bias"));
  };
  const std::vector<std::int64_t> rotated = rope_order(m.rope_frequencies_at(layer), false);
  fused(Weight::q, 0, rotated);
  fused(Weight::k, 1, rotated);
  fused(Weight::v, 2, unpermuted);
  map_linear(map, layer, Weight::o, stem + "attention.dense", biases);
  map_linear(map, layer, Weight::up, stem + "mlp.dense_h_to_4h");
  map_linear(map, layer, Weight::down, stem + "mlp.dense_4h_to_h");
  map.set_norm(2 * layer, Weight::norm_a, layer_norm(stem + "input_layernorm"));
  map.set_norm(2 * layer + 1, Weight::norm_a, layer_norm(stem + "post_attention_layernorm"));
}

/// GPT-NeoX, Pythia: LayerNorm, biases, partial RoPE; attention and MLP in parallel, each with its own norm.
FamilyStack read_gpt_neox(ConfigReader& config, const TensorNames& names) {
  skip_harmless_keys(config);
  FamilyStack stack;
  ModelSpec& m = stack.model;
  m.placement = *find_placement(config.flag_or("use_parallel_residual", true) ? "parallel-two" : "pre");
  m.norm = NormKind::layer;
  read_sizes(config, m);
  m.kv_heads = m.heads;
  m.head_dim = divided_head_dim(config, m, "hidden_size", "num_attention_heads");
  if (m.head_dim % 2 != 0) {
    throw config.unsupported_value("num_attention_heads", "heads of an even width, because RoPE rotates pairs");
  }
  m.norm_eps = config.positive_or("layer_norm_eps", 1e-5);
  m.mlp = read_plain_mlp(config, "hidden_act", "gelu");
  const AttentionRule rule = read_rope(config, m,
                                       {.context = config.integer_or("max_position_embeddings", 2048, max_tokens),
                                        .partial = 0.25,
                                        .theta_key = "rotary_emb_base",
                                        .partial_key = "rotary_pct"});
  set_attention(m, std::vector<AttentionRule>(static_cast<std::size_t>(m.layers), rule));
  const bool biases = config.flag_or("attention_bias", true);

  ParameterMap& map = stack.map;
  map.set(0, Weight::embedding, whole(neox_embedding));
  for (int layer = 0; layer < m.layers; ++layer) map_layer(map, m, layer, biases);
  map.set_norm(0, Weight::final_norm, layer_norm("gpt_neox.final_layer_norm"));
  map_head(config, names, stack, false, neox_embedding);
  return stack;
}

nlohmann::ordered_json write_gpt_neox(const ModelSpec& m) {
  return {{"architectures", {architecture_for(m, "GPTNeoXForCausalLM", "GPTNeoXModel")}},
          {"model_type", "gpt_neox"},
          {"dtype", "float32"},
          {"vocab_size", m.vocab},
          {"hidden_size", m.width},
          {"intermediate_size", m.mlp_width},
          {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads},
          {"max_position_embeddings", 1 << 20},
          {"hidden_act", activation_name(m.mlp)},
          {"layer_norm_eps", m.norm_eps},
          {"rotary_emb_base", rope_base},
          {"rotary_pct", 1.0},
          {"use_parallel_residual", m.placement.wiring == Wiring::parallel_two},
          {"attention_bias", true},
          {"tie_word_embeddings", false}};
}

}  // namespace

Family gpt_neox_family() {
  return {.name = "gpt_neox",
          .architectures = {"GPTNeoXForCausalLM", "GPTNeoXModel"},
          .body = "gpt_neox.",
          .anchor = "embed_in.weight",
          .aliases = {{"lm_head.weight", "embed_out.weight"}},
          .read = read_gpt_neox,
          .write = write_gpt_neox};
}

}  // namespace periscope
