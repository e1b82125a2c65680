#include <fmt/format.h>

#include <cmath>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

/// Returns the attention rule of every layer, including the factor that multiplies q·k.
std::vector<AttentionRule> read_scales(ConfigReader& config, const ModelSpec& m) {
  const bool by_head = config.flag_or("scale_attn_weights", true);
  const bool by_layer = config.flag_or("scale_attn_by_inverse_layer_idx", false);
  std::vector<AttentionRule> rules(static_cast<std::size_t>(m.layers));
  for (int layer = 0; layer < m.layers; ++layer) {
    if (by_head && !by_layer) continue;
    const double scale = by_head ? 1.0 / std::sqrt(static_cast<double>(m.head_dim)) : 1.0;
    rules[static_cast<std::size_t>(layer)].scores.scale = by_layer ? scale / (layer + 1.0) : scale;
  }
  return rules;
}

/// Matrices are stored as [in, out]; queries, keys and values share one tensor.
void map_layer(ParameterMap& map, const ModelSpec& m, int layer) {
  const std::string stem = fmt::format("transformer.h.{}.", layer);
  const auto linear = [&](Weight weight, const std::string& name, std::int64_t first) {
    map.set(layer, weight, {.tensor = stem + name + ".weight", .first = first, .transposed = true});
    map.set_bias(layer, weight, {.tensor = stem + name + ".bias", .first = first});
  };
  const auto norm = [&](int sublayer, const std::string& name) {
    map.set_norm(sublayer, Weight::norm_a, layer_norm(stem + name));
  };
  norm(2 * layer, "ln_1");
  linear(Weight::q, "attn.c_attn", 0);
  linear(Weight::k, "attn.c_attn", m.width);
  linear(Weight::v, "attn.c_attn", 2L * m.width);
  linear(Weight::o, "attn.c_proj", 0);
  norm(2 * layer + 1, "ln_2");
  linear(Weight::up, "mlp.c_fc", 0);
  linear(Weight::down, "mlp.c_proj", 0);
}

/// Pre-LN with LayerNorm, learned positions and biases everywhere.
FamilyStack read_gpt2(ConfigReader& config, const TensorNames& names) {
  skip_harmless_keys(config);
  config.harmless({"reorder_and_upcast_attn"});
  FamilyStack stack;
  ModelSpec& m = stack.model;
  m.placement = *find_placement("pre");
  m.norm = NormKind::layer;
  m.rope = false;
  m.width = config.integer("n_embd", max_width, 2);
  m.layers = read_layers(config, "n_layer");
  m.heads = m.kv_heads = config.integer("n_head", max_width);
  m.head_dim = divided_head_dim(config, m, "n_embd", "n_head");
  m.mlp_width = config.integer_or_none("n_inner", std::nullopt, max_width).value_or(4 * m.width);
  m.vocab = config.integer("vocab_size", max_tokens);
  m.embedding.positions = config.integer("n_positions", max_tokens);
  m.norm_eps = config.positive_or("layer_norm_epsilon", 1e-5);
  m.mlp = read_plain_mlp(config, "activation_function", "gelu_new");
  set_attention(m, read_scales(config, m));

  ParameterMap& map = stack.map;
  map.set(0, Weight::embedding, whole("transformer.wte.weight"));
  map.set(0, Weight::positions, whole("transformer.wpe.weight"));
  for (int layer = 0; layer < m.layers; ++layer) map_layer(map, m, layer);
  map.set_norm(0, Weight::final_norm, layer_norm("transformer.ln_f"));
  map_head(config, names, stack, true, "transformer.wte.weight");
  return stack;
}

nlohmann::ordered_json write_gpt2(const ModelSpec& m) {
  return {{"architectures", {architecture_for(m, "GPT2LMHeadModel", "GPT2Model")}},
          {"model_type", "gpt2"},
          {"dtype", "float32"},
          {"vocab_size", m.vocab},
          {"n_positions", m.embedding.positions > 0 ? m.embedding.positions : default_positions},
          {"n_embd", m.width},
          {"n_layer", m.layers},
          {"n_head", m.heads},
          {"n_inner", m.mlp_width},
          {"activation_function", activation_name(m.mlp, true)},
          {"layer_norm_epsilon", m.norm_eps},
          {"tie_word_embeddings", false}};
}

}  // namespace

Family gpt2_family() {
  return {.name = "gpt2",
          .architectures = {"GPT2LMHeadModel", "GPT2Model"},
          .body = "transformer.",
          .anchor = "wte.weight",
          .first_layer = "h.0.",
          .init_residual = "1/sqrt(2L)",
          .read = read_gpt2,
          .write = write_gpt2};
}

}  // namespace periscope
