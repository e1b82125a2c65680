#include "sim/checkpoint/families/gemma.h"

#include <cmath>

namespace periscope {

void read_gemma(ConfigReader& config, ModelSpec& m) {
  skip_harmless_keys(config);
  m.placement = *find_placement("peri");
  m.width = config.integer_or("hidden_size", 2304, most_wide);
  m.layers = config.integer_or("num_hidden_layers", 26, most_layers);
  m.heads = config.integer_or("num_attention_heads", 8, most_wide);
  m.mlp_width = config.integer_or("intermediate_size", 9216, most_wide);
  read_kv_heads(config, m, 4);
  read_head_dim(config, m, 256);
  m.mlp = read_gated_mlp(config, "hidden_activation", "gelu_pytorch_tanh");
  // An older name of the same key, which the public implementation does not read.
  if (config.has("hidden_act") && read_gated_mlp(config, "hidden_act", "") != m.mlp) {
    throw config.unsupported_value("hidden_act", "the same as hidden_activation");
  }
  m.norm_eps = config.positive_or("rms_norm_eps", 1e-6);
  // The public implementation keeps √D as an f32, and rounds it to the type that it computes in: bf16 gives 55.5 for
  // D = 3072. Here it is that f32, also in f64, as in the reference numbers.
  m.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(m.width)));
  config.must_be("use_bidirectional_attention", false);
}

double read_score_scale(ConfigReader& config, int head_dim) {
  const double scalar = config.positive_or("query_pre_attn_scalar", 256);
  return scalar == head_dim ? 0.0 : 1.0 / std::sqrt(scalar);
}

void map_gemma(ConfigReader& config, const TensorNames& names, FamilyStack& stack) {
  const bool bias = config.flag_or("attention_bias", false);
  map_llama(stack, {.qkv_bias = bias,
                    .o_bias = bias,
                    .gain_plus = 1.0,
                    .attention_b = "post_attention_layernorm",
                    .mlp_a = "pre_feedforward_layernorm",
                    .mlp_b = "post_feedforward_layernorm"});
  map_head(config, names, stack, true, "model.embed_tokens.weight");
}

nlohmann::ordered_json gemma_config(const ModelSpec& m, std::string_view model_type, std::string_view class_stem) {
  nlohmann::ordered_json json = llama_config(m, model_type, class_stem);
  json["hidden_activation"] = activation_name(m.mlp);
  json["query_pre_attn_scalar"] = m.head_dim;
  json["layer_types"] = std::vector<std::string>(static_cast<std::size_t>(m.layers), "full_attention");
  json["attn_logit_softcapping"] = nullptr;
  json["final_logit_softcapping"] = m.head.soft_cap > 0.0 ? nlohmann::ordered_json(m.head.soft_cap) : nullptr;
  return json;
}

}  // namespace periscope
