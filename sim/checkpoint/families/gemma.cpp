#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

/// Reads the keys shared by Gemma 2 to 4, except attention rules and head: Peri-LN, a gated MLP with the tanh
/// approximation of GELU, embeddings multiplied by √D in f32.
void read_gemma(ConfigReader& config, ModelSpec& m, int default_layers = 26) {
  skip_harmless_keys(config);
  m.placement = *find_placement("peri");
  m.width = config.integer_or("hidden_size", 2304, max_width);
  m.layers = read_layers(config, "num_hidden_layers", default_layers);
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
}

/// Returns query_pre_attn_scalar^(−1/2), or 0 (the default scale) if query_pre_attn_scalar equals head_dim.
double read_score_scale(ConfigReader& config, int head_dim) {
  const double scalar = config.positive_or("query_pre_attn_scalar", 256);
  return scalar == head_dim ? 0.0 : 1.0 / std::sqrt(scalar);
}

void map_gemma(ConfigReader& config, const TensorNames& names, FamilyStack& stack, LlamaTensors tensors) {
  tensors.tied_by_default = true;
  tensors.attention_b = "post_attention_layernorm";
  tensors.mlp_a = "pre_feedforward_layernorm";
  tensors.mlp_b = "post_feedforward_layernorm";
  map_llama_like(config, names, stack, tensors);
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
  config.must_be("use_bidirectional_attention", false);
  m.vocab = config.integer_or("vocab_size", 256000, max_tokens);
  m.head.soft_cap = config.positive_or_none("final_logit_softcapping", 30.0).value_or(0.0);
  const int window = config.integer_or_none("sliding_window", 4096, max_tokens).value_or(0);
  const int context = config.integer_or("max_position_embeddings", 8192, max_tokens);
  AttentionRule rule = read_rope(config, m, {.context = context});
  rule.scores.scale = read_score_scale(config, m.head_dim);
  rule.scores.soft_cap = config.positive_or_none("attn_logit_softcapping", 50.0).value_or(0.0);
  const auto every_other = [](int layer) { return layer % 2 == 0; };
  set_layer_types(config, m, read_sliding_layers(config, m.layers, every_other), window, rule, rule);
  map_gemma(config, names, stack, {.gain_plus = 1.0});
  return stack;
}

/// Gemma 3: a QK-norm per head with gains 1 + w. By default, five layers with a window are followed by one without.
FamilyStack read_text(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  read_gemma(config, m);
  config.must_be("use_bidirectional_attention", false);
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
  map_gemma(config, names, stack, {.gain_plus = 1.0});
  return stack;
}

/// Reads the heads of layers without a window: from per_layer_config, as written by transformers, or else from
/// global_head_dim and, if keys are also values, num_global_key_value_heads.
ModelSpec with_global_heads(ConfigReader& config, const ModelSpec& m, const std::vector<bool>& sliding, bool k_eq_v) {
  constexpr std::string_view key = "per_layer_config";
  ModelSpec full = m;
  if (!config.is_given(key)) {
    read_head_dim(config, full, 512, "global_head_dim");
    if (k_eq_v && config.has("num_global_key_value_heads")) {
      read_kv_heads(config, full, m.kv_heads, false, "num_global_key_value_heads");
    }
    config.harmless({"num_global_key_value_heads"});
    return full;
  }
  config.harmless({"global_head_dim", "num_global_key_value_heads"});
  ConfigReader all = config.table(key);
  for (int layer = m.layers - 1; layer >= 0; --layer) {
    ModelSpec own = m;
    if (const std::string name = std::to_string(layer); all.has(name)) {
      ConfigReader one = all.table(name);
      read_head_dim(one, own, m.head_dim);
      read_kv_heads(one, own, m.kv_heads, false);
      one.finish();
    }
    if (layer == m.layers - 1) full = own;  // the last layer has no window
    const ModelSpec& expected = sliding[static_cast<std::size_t>(layer)] ? m : full;
    if (own.head_dim != expected.head_dim || own.kv_heads != expected.kv_heads) {
      throw config.unsupported_value(
          key, "equal heads in all full_attention layers, and no heads of sliding_attention layers");
    }
  }
  all.finish();
  return full;
}

/// Reads RoPE of Gemma 4, whose layers without a window may have heads of another width.
RopePair read_gemma4_ropes(ConfigReader& config, ModelSpec& m, int full_dim) {
  const int context = config.integer_or("max_position_embeddings", 131072, max_tokens);
  if (config.has("rope_parameters")) {
    RopeDefaults rope{.theta = 0.0, .context = context, .partial = 1.0, .is_proportional = true};
    const RopeDefaults sliding = rope;
    rope.head_dim = full_dim;
    return read_rope_pair(config, m, rope, sliding);
  }
  config.must_be("rope_parameters", nullptr);
  return {.full = {.rope_frequencies = proportional_frequencies(full_dim, 1e6, 0.25)},
          .sliding = {.rope_frequencies = rope_frequencies(m.head_dim, rope_base)}};
}

/// Gemma 4, dense: norms of queries, keys and values, scores without a scale, and a factor of the stream after every
/// layer. In layers without a window, heads may have another width and keys may also be the values.
FamilyStack read_gemma4_text(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  read_gemma(config, m, 30);
  config.must_be("use_bidirectional_attention", "vision");  // text is causal
  if (config.integer_or("hidden_size_per_layer_input", 256, max_width, 0) != 0) {
    throw config.unsupported_value("hidden_size_per_layer_input", "0, a model without embeddings per layer");
  }
  config.must_be("num_kv_shared_layers", 0);
  config.must_be("enable_moe_block", false);
  // These keys belong to embeddings per layer and to layers that share keys.
  config.harmless({"vocab_size_per_layer_input", "use_double_wide_mlp"});
  m.qk_norm = QkNorm::head;
  m.v_norm = true;
  m.vocab = config.integer_or("vocab_size", 262144, max_tokens);
  m.head.soft_cap = config.positive_or_none("final_logit_softcapping", std::nullopt).value_or(0.0);
  const bool k_eq_v = config.flag_or("attention_k_eq_v", false);
  const int window = config.integer_or("sliding_window", 512, max_tokens);
  std::vector<bool> sliding = read_sliding_layers(config, m.layers, [](int layer) { return (layer + 1) % 6 != 0; });
  sliding.back() = false;  // as in transformers
  const ModelSpec global = with_global_heads(config, m, sliding, k_eq_v);
  RopePair ropes = read_gemma4_ropes(config, m, global.head_dim);
  if (std::ranges::count(sliding, true) == 0) {
    m.head_dim = global.head_dim;
    m.kv_heads = global.kv_heads;
  }
  ropes.full.scores.scale = ropes.sliding.scores.scale = 1.0;
  if (global.head_dim != m.head_dim) ropes.full.head_dim = global.head_dim;
  if (global.kv_heads != m.kv_heads) ropes.full.kv_heads = global.kv_heads;
  set_layer_types(config, m, sliding, window, ropes.full, ropes.sliding);
  LlamaTensors tensors{.whole_head_rope = true};
  for (const bool slides : sliding) tensors.values_from_keys.push_back(k_eq_v && !slides);
  map_gemma(config, names, stack, std::move(tensors));
  for (int layer = 0; layer < m.layers; ++layer) {
    stack.layer_scales.push_back(fmt::format("model.layers.{}.layer_scalar", layer));
  }
  return stack;
}

/// Reads a text model or, from text_config, the text model of a multimodal model.
FamilyStack read_text_part(ConfigReader& config, const TensorNames& names, std::string_view model_type,
                           FamilyStack (*read)(ConfigReader& text, const TensorNames& names)) {
  if (!config.has("text_config")) return read(config, names);
  skip_harmless_keys(config);
  config.harmless({"vision_config", "audio_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index",
                   "image_token_index", "boi_token_id", "eoi_token_id", "image_token_id", "video_token_id",
                   "boa_token_id", "eoa_token_id", "eoa_token_index", "audio_token_id",
                   "vision_soft_tokens_per_image"});
  config.must_be("tie_word_embeddings", true);
  ConfigReader text = config.table("text_config");
  text.must_be("model_type", model_type);
  text.must_be("tie_word_embeddings", true);
  FamilyStack stack = read(text, names);
  text.finish();
  stack.warnings.emplace_back("only the text model of this multimodal model is used");
  return stack;
}

FamilyStack read_gemma3(ConfigReader& config, const TensorNames& names) {
  if (config.has("text_config")) {  // Gemma3ForConditionalGeneration ignores the soft cap
    config.table("text_config").must_be("final_logit_softcapping", nullptr);
  }
  return read_text_part(config, names, "gemma3_text", read_text);
}

FamilyStack read_gemma4(ConfigReader& config, const TensorNames& names) {
  return read_text_part(config, names, "gemma4_text", read_gemma4_text);
}

/// Returns the config.json of a text model whose kinds of layers have RoPE of their own.
nlohmann::ordered_json text_config(const ModelSpec& m, const std::string& model_type, const std::string& class_stem) {
  nlohmann::ordered_json json = gemma_config(m, model_type, class_stem);
  if (!m.unembedding) json["architectures"] = {class_stem + "TextModel"};
  const nlohmann::ordered_json rope = json["rope_parameters"];
  json["rope_parameters"] = {{"full_attention", rope}, {"sliding_attention", rope}};
  return json;
}

nlohmann::ordered_json write_gemma4(const ModelSpec& m) {
  nlohmann::ordered_json json = text_config(m, "gemma4_text", "Gemma4");
  json.erase("query_pre_attn_scalar");
  json.erase("attn_logit_softcapping");
  json["global_head_dim"] = m.head_dim;
  json["hidden_size_per_layer_input"] = 0;
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
      .write = [](const ModelSpec& m) { return text_config(m, "gemma3_text", "Gemma3"); }};
}

Family gemma4_family() {
  return {.name = "gemma4",
          .other_model_type = "gemma4_text",
          .architectures = {"Gemma4ForCausalLM", "Gemma4TextModel", "Gemma4ForConditionalGeneration"},
          .other_parts = {"vision_tower.", "embed_vision.", "audio_tower.", "embed_audio.", "model.vision_tower.",
                          "model.embed_vision.", "model.audio_tower.", "model.embed_audio."},
          .read = read_gemma4,
          .write = write_gemma4};
}

}  // namespace periscope
