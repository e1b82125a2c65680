#include <fmt/format.h>

#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/file_error.h"

namespace periscope {

std::vector<AttentionRule> read_llama_like(ConfigReader& config, ModelSpec& m, const LlamaDefaults& defaults) {
  skip_harmless_keys(config);
  m.placement = *find_placement("pre");
  read_sizes(config, m);
  read_kv_heads(config, m, defaults.kv_heads, defaults.null_kv_heads);
  read_head_dim(config, m, defaults.head_dim);
  m.mlp = read_gated_mlp(config, "hidden_act", "silu");
  const std::string_view mlp = mlp_kind_names[static_cast<std::size_t>(m.mlp)];
  if (config.has("activation") && config.text("activation") != mlp) {  // Falcon 3 has it; no implementation reads it
    throw config.unsupported_value("activation", in_quotes(mlp) + ", the gated MLP of hidden_act");
  }
  m.norm_eps = config.positive_or("rms_norm_eps", defaults.norm_eps);
  const int context = config.integer_or("max_position_embeddings", defaults.context, most_tokens);
  AttentionRule rule;
  rule.rope_frequencies = read_rope(config, m.head_dim, rope_base, context);
  return std::vector<AttentionRule>(static_cast<std::size_t>(m.layers), rule);
}

void map_llama_like(ConfigReader& config, const TensorNames& names, FamilyStack& stack, const LlamaTensors& t) {
  const std::string embedding = "model.embed_tokens.weight";
  const ModelSpec& m = stack.model;
  ParameterMap& map = stack.map;
  const auto norm = [&](const std::string& name) { return StoredNorm{whole(name + ".weight", t.gain_plus), {}}; };
  map.set(0, Weight::embedding, whole(embedding));
  map.set_norm(0, Weight::final_norm, norm("model.norm"));
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string stem = fmt::format("model.layers.{}.", layer);
    const auto linear = [&](Weight matrix, const std::string& name, bool bias) {
      map_linear(map, layer, matrix, stem + name, bias);
    };
    const auto norm_at = [&](int sublayer, Weight weight, std::string_view name) {
      if (!name.empty()) map.set_norm(sublayer, weight, norm(stem + std::string(name)));
    };
    linear(Weight::q, "self_attn.q_proj", t.qkv_bias);
    linear(Weight::k, "self_attn.k_proj", t.qkv_bias);
    linear(Weight::v, "self_attn.v_proj", t.qkv_bias);
    linear(Weight::o, "self_attn.o_proj", t.o_bias);
    linear(Weight::gate, "mlp.gate_proj", t.mlp_bias);
    linear(Weight::up, "mlp.up_proj", t.mlp_bias);
    linear(Weight::down, "mlp.down_proj", t.mlp_bias);
    norm_at(2 * layer, Weight::norm_a, t.attention_a);
    norm_at(2 * layer, Weight::norm_b, t.attention_b);
    norm_at(2 * layer + 1, Weight::norm_a, t.mlp_a);
    norm_at(2 * layer + 1, Weight::norm_b, t.mlp_b);
    if (m.qk_norm == QkNorm::none) continue;
    norm_at(2 * layer, Weight::q_norm, "self_attn.q_norm");
    norm_at(2 * layer, Weight::k_norm, "self_attn.k_norm");
  }
  map_head(config, names, stack, t.tied_by_default, embedding);
}

nlohmann::ordered_json llama_like_config(const ModelSpec& m, std::string_view model_type, std::string_view class_stem,
                                         std::string_view activation_key) {
  const std::string stem(class_stem);
  return {{"architectures", {architecture_for(m, stem + "ForCausalLM", stem + "Model")}},
          {"model_type", model_type},
          {"dtype", "float32"},
          {"vocab_size", m.vocab},
          {"hidden_size", m.width},
          {"intermediate_size", m.mlp_width},
          {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads},
          {"num_key_value_heads", m.kv_heads},
          {"head_dim", m.head_dim},
          {"rms_norm_eps", m.norm_eps},
          {"max_position_embeddings", 1 << 20},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", rope_base}}},
          {"attention_bias", false},
          {"tie_word_embeddings", false},
          {activation_key, activation_name(m.mlp)}};
}

}  // namespace periscope
