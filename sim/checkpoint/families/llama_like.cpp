#include "sim/checkpoint/families/llama_like.h"

#include <fmt/format.h>

namespace periscope {

void map_llama(FamilyStack& stack, const LlamaNames& n) {
  const ModelSpec& m = stack.model;
  ParameterMap& map = stack.map;
  const auto norm = [&](const std::string& stem) { return StoredNorm{whole(stem + ".weight", n.gain_plus), {}}; };
  map.set(0, Weight::embedding, whole("model.embed_tokens.weight"));
  map.set_norm(0, Weight::final_norm, norm("model.norm"));
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string stem = fmt::format("model.layers.{}.", layer);
    const auto linear = [&](Weight weight, const std::string& name, bool bias) {
      map.set(layer, weight, whole(stem + name + ".weight"));
      if (bias) map.set_bias(layer, weight, whole(stem + name + ".bias"));
    };
    const auto norm_at = [&](int sublayer, Weight site, std::string_view name) {
      if (!name.empty()) map.set_norm(sublayer, site, norm(stem + std::string(name)));
    };
    linear(Weight::q, "self_attn.q_proj", n.qkv_bias);
    linear(Weight::k, "self_attn.k_proj", n.qkv_bias);
    linear(Weight::v, "self_attn.v_proj", n.qkv_bias);
    linear(Weight::o, "self_attn.o_proj", n.o_bias);
    linear(Weight::gate, "mlp.gate_proj", n.mlp_bias);
    linear(Weight::up, "mlp.up_proj", n.mlp_bias);
    linear(Weight::down, "mlp.down_proj", n.mlp_bias);
    norm_at(2 * layer, Weight::norm_a, n.attention_a);
    norm_at(2 * layer, Weight::norm_b, n.attention_b);
    norm_at(2 * layer + 1, Weight::norm_a, n.mlp_a);
    norm_at(2 * layer + 1, Weight::norm_b, n.mlp_b);
    if (m.qk_norm == QkNorm::none) continue;
    norm_at(2 * layer, Weight::q_norm, "self_attn.q_norm");
    norm_at(2 * layer, Weight::k_norm, "self_attn.k_norm");
  }
}

nlohmann::ordered_json llama_config(const ModelSpec& m, std::string_view model_type, std::string_view class_stem) {
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
          {"tie_word_embeddings", false}};
}

}  // namespace periscope
