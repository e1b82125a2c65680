#include "sim/checkpoint/families/families.h"

/// Families that store several projections in one matrix and rotate a part of every head.
namespace periscope {
namespace {

/// Phi-3, Phi-4: Llama with fused projections, without biases.
FamilyStack read_phi3(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  const int original = config.integer_or("original_max_position_embeddings", 4096, max_tokens, 2);
  std::vector<AttentionRule> rules = read_llama_like(
      config, stack.model,
      {.norm_eps = 1e-5, .rope = {.context = 4096, .partial = 1.0, .is_phi3 = true, .original_context = original}});
  const int window = config.integer_or_none("sliding_window", std::nullopt, max_tokens).value_or(0);
  for (AttentionRule& rule : rules) rule.scores.window = window;
  set_attention(stack.model, std::move(rules));
  // Keys of Microsoft's own code that transformers does not read.
  config.must_be("lm_head_bias", false);
  config.must_be("full_attn_mod", 1);
  config.must_be("interpolate_factor", 1);
  map_llama_like(config, names, stack, {.biases = AttentionBiases::none, .fused_qkv = true, .fused_gate_up = true});
  return stack;
}

/// GLM-4: Peri-LN with its own names of norms, interleaved RoPE, and biases of queries, keys and values.
FamilyStack read_glm4(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  set_attention(m, read_llama_like(config, m,
                                   {.kv_heads = 2,
                                    .null_kv_heads = false,
                                    .head_dim = 128,
                                    .norm_eps = 1.5625e-7,
                                    .rope = {.context = 131072, .partial = 0.5}}));
  m.placement = *find_placement("peri");
  const bool biases = config.flag_or("attention_bias", true);
  map_llama_like(config, names, stack,
                 {.biases = biases ? AttentionBiases::qkv : AttentionBiases::none,
                  .fused_gate_up = true,
                  .interleaved_rope = true,
                  .attention_b = "post_self_attn_layernorm",
                  .mlp_b = "post_mlp_layernorm"});
  return stack;
}

nlohmann::ordered_json write_phi3(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "phi3", "Phi3");
  json.erase("attention_bias");
  json["pad_token_id"] = nullptr;  // the default exceeds the vocabulary of small models
  return json;
}

nlohmann::ordered_json write_glm4(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "glm4", "Glm4");
  json["attention_bias"] = true;
  json["partial_rotary_factor"] = 1.0;
  json["pad_token_id"] = nullptr;  // the default exceeds the vocabulary of small models
  return json;
}

}  // namespace

Family phi3_family() {
  return {.name = "phi3", .architectures = {"Phi3ForCausalLM", "Phi3Model"}, .read = read_phi3, .write = write_phi3};
}

Family glm4_family() {
  return {.name = "glm4", .architectures = {"Glm4ForCausalLM", "Glm4Model"}, .read = read_glm4, .write = write_glm4};
}

}  // namespace periscope
