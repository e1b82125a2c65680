#include <cmath>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

/// Reads the keys shared by Gemma 2 and 3, except attention rules and head: Peri-LN with gains 1 + w, a gated MLP with
/// the tanh approximation of GELU, embeddings multiplied by √D in f32.
void read_gemma(ConfigReader& config, ModelSpec& m) {
  skip_harmless_keys(config);
  m.placement = *find_placement("peri");
  m.width = config.integer_or("hidden_size", 2304, max_width);
  m.layers = read_layers(config, "num_hidden_layers", 26);
  m.heads = config.integer_or("num_attention_heads", 8, max_width);
  m.mlp_width = config.integer_or("intermediate_size", 9216, max_width);
  read_kv_heads(config, m, 4, false);
  read_head_dim(config, m, 256);
  m.mlp = read_gated_mlp(config, "hidden_activation", "gelu_pytorch_tanh");
  // hidden_act is the key's older name, which the public implementation ignores.
  if (config.has("hidden_act") && read_gated_mlp(config, "hidden_act", "") != m.mlp) {
    throw config.unsupported_value("hidden_act", "the same as hidden_activation");
  }
  m.norm_eps = config.positive_or("rms_norm_eps", 1e-6);
  // √D is rounded to f32, as for the tests' reference values. Public implementations round it to the compute dtype.
  m.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(m.width)));
  config.must_be("use_bidirectional_attention", false);
}

/// Returns query_pre_attn_scalar^(−1/2), or 0 (the default scale) if query_pre_attn_scalar equals head_dim.
double read_score_scale(ConfigReader& config, int head_dim) {
  const double scalar = config.positive_or("query_pre_attn_scalar", 256);
  return scalar == head_dim ? 0.0 : 1.0 / std::sqrt(scalar);
}

void map_gemma(ConfigReader& config, const TensorNames& names, FamilyStack& stack) {
  map_llama_like(config, names, stack,
                 {.tied_by_default = true,
                  .gain_plus = 1.0,
                  .attention_b = "post_attention_layernorm",
                  .mlp_a = "pre_feedforward_layernorm",
                  .mlp_b = "post_feedforward_layernorm"});
}

nlohmann::ordered_json gemma_config(const ModelSpec& m, std::string_view model_type, std::string_view class_stem) {
  nlohmann::ordered_json json = llama_like_config(m, model_type, class_stem, "hidden_activation");
  json["query_pre_attn_scalar"] = m.head_dim;
  json["layer_types"] = std::vector<std::string>(static_cast<std::size_t>(m.layers), "full_attention");
  json["attn_logit_softcapping"] = nullptr;
  json["final_logit_softcapping"] = m.head.soft_cap > 0.0 ? nlohmann::ordered_json(m.head.soft_cap) : nullptr;
  return json;
}

/// Gemma 2: soft caps on scores and logits; every other layer has an attention window, starting with the first.
FamilyStack read_gemma2(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  read_gemma(config, m);
  m.vocab = config.integer_or("vocab_size", 256000, max_tokens);
  m.head.soft_cap = config.positive_or_none("final_logit_softcapping", 30.0).value_or(0.0);
  const int window = config.integer_or_none("sliding_window", 4096, max_tokens).value_or(0);
  const int context = config.integer_or("max_position_embeddings", 8192, max_tokens);
  AttentionRule rule = read_rope(config, m, {.context = context});
  rule.scores.scale = read_score_scale(config, m.head_dim);
  rule.scores.soft_cap = config.positive_or_none("attn_logit_softcapping", 50.0).value_or(0.0);
  const auto every_other = [](int layer) { return layer % 2 == 0; };
  set_layer_types(config, m, read_sliding_layers(config, m.layers, every_other), window, rule, rule);
  map_gemma(config, names, stack);
  return stack;
}

/// Gemma 3: a QK-norm per head with gains 1 + w. By default, five layers with a window are followed by one without.
FamilyStack read_text(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  read_gemma(config, m);
  m.qk_norm = QkNorm::head;
  config.null_is_absent("rope_theta");
  m.vocab = config.integer_or("vocab_size", 262208, max_tokens);
  m.head.soft_cap = config.positive_or_none("final_logit_softcapping", std::nullopt).value_or(0.0);
  config.must_be("attn_logit_softcapping", nullptr);  // the public implementation reads it, but ignores it
  const int context = config.integer_or("max_position_embeddings", 131072, max_tokens);
  RopePair ropes = read_ropes(config, m, {.theta = 1e6, .context = context}, rope_base, "rope_local_base_freq");
  ropes.full.scores.scale = ropes.sliding.scores.scale = read_score_scale(config, m.head_dim);
  const int window = config.integer_or_none("sliding_window", 4096, max_tokens).value_or(0);
  int pattern = 0;  // unused if layer_types is present
  if (!config.has("layer_types")) {
    pattern = config.integer_or("sliding_window_pattern", 6, max_layers);
    config.must_be("_sliding_window_pattern", pattern);
  }
  config.harmless({"sliding_window_pattern", "_sliding_window_pattern"});
  const auto all_but_last = [&](int layer) { return (layer + 1) % pattern != 0; };
  const std::vector<bool> sliding = read_sliding_layers(config, m.layers, all_but_last);
  set_layer_types(config, m, sliding, window, ropes.full, ropes.sliding);
  map_gemma(config, names, stack);
  return stack;
}

/// Multimodal models store the keys of their text model in text_config.
FamilyStack read_gemma3(ConfigReader& config, const TensorNames& names) {
  if (!config.has("text_config")) return read_text(config, names);
  skip_harmless_keys(config);
  config.harmless({"vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index",
                   "boi_token_id", "eoi_token_id", "image_token_id", "vision_soft_tokens_per_image"});
  config.must_be("tie_word_embeddings", true);
  ConfigReader text = config.table("text_config");
  text.must_be("model_type", "gemma3_text");
  text.must_be("final_logit_softcapping", nullptr);  // Gemma3ForConditionalGeneration ignores it
  text.must_be("tie_word_embeddings", true);
  FamilyStack stack = read_text(text, names);
  text.finish();
  stack.warnings.emplace_back("only the text model of this multimodal model is used");
  return stack;
}

nlohmann::ordered_json write_gemma3(const ModelSpec& m) {
  nlohmann::ordered_json json = gemma_config(m, "gemma3_text", "Gemma3");
  if (!m.unembedding) json["architectures"] = {"Gemma3TextModel"};
  const nlohmann::ordered_json rope = json["rope_parameters"];
  json["rope_parameters"] = {{"full_attention", rope}, {"sliding_attention", rope}};
  return json;
}

}  // namespace

Family gemma2_family() {
  return {.name = "gemma2",
          .architectures = {"Gemma2ForCausalLM", "Gemma2Model"},
          .read = read_gemma2,
          .write = [](const ModelSpec& m) { return gemma_config(m, "gemma2", "Gemma2"); }};
}

Family gemma3_family() {
  return {
      .name = "gemma3",
      .other_model_type = "gemma3_text",
      .architectures = {"Gemma3ForCausalLM", "Gemma3TextModel", "Gemma3ForConditionalGeneration"},
      .other_parts = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."},
      .read = read_gemma3,
      .write = write_gemma3};
}

}  // namespace periscope
