#include <array>

#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/families/gemma.h"
#include "sim/checkpoint/families/rope.h"

namespace periscope {
namespace {

/// The frequencies of layers without and with a window.
struct RopePair {
  std::vector<double> full, sliding;
};

RopePair read_ropes(ConfigReader& config, int head_dim, int context) {
  constexpr double full_theta = 1e6;
  if (!config.has("rope_parameters")) {
    RopePair pair;
    pair.full = read_rope(config, head_dim, full_theta, context);
    pair.sliding = scaled_frequencies(head_dim, config.positive_or("rope_local_base_freq", rope_base));
    return pair;
  }
  config.must_be("rope_scaling", nullptr);
  ConfigReader ropes = config.object("rope_parameters");
  ConfigReader full = ropes.object("full_attention");
  ConfigReader sliding = ropes.object("sliding_attention");
  const auto agree = [&](std::string_view key, ConfigReader& rope) {
    if (config.has(key) && config.positive(key) != rope.positive_or("rope_theta", config.positive(key))) {
      throw config.unsupported_value(key, "the same as in rope_parameters");
    }
  };
  agree("rope_theta", full);
  agree("rope_local_base_freq", sliding);
  const double theta = config.has("rope_theta") ? config.positive("rope_theta") : full_theta;
  const double local = config.has("rope_local_base_freq") ? config.positive("rope_local_base_freq") : rope_base;
  RopePair pair{read_rope_object(full, head_dim, theta, context), read_rope_object(sliding, head_dim, local, context)};
  ropes.finish();
  return pair;
}

/// QK-norm of every head with gains 1 + w; five layers with a window, then one without, each kind with its own RoPE.
FamilyStack read_text(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  read_gemma(config, m);
  m.qk_norm = QkNorm::head;
  m.vocab = config.integer_or("vocab_size", 262208, most_tokens);
  m.head.soft_cap = config.positive_or_none("final_logit_softcapping", std::nullopt).value_or(0.0);
  config.must_be("attn_logit_softcapping", nullptr);  // the public implementation reads it and does nothing with it
  const int context = config.integer_or("max_position_embeddings", 131072, most_tokens);
  const RopePair ropes = read_ropes(config, m.head_dim, context);
  const double scale = read_score_scale(config, m.head_dim);
  const int window = config.integer_or_none("sliding_window", 4096, most_tokens).value_or(0);
  const int pattern = config.integer_or("sliding_window_pattern", 6, most_layers);
  if (!config.has("layer_types")) config.must_be("_sliding_window_pattern", pattern);
  constexpr std::array<std::string_view, 1> said_twice{"_sliding_window_pattern"};
  config.harmless(said_twice);
  const auto all_but_last = [](int layer, int length) { return (layer + 1) % length != 0; };
  std::vector<AttentionRule> rules;
  for (const bool slides : read_sliding_layers(config, m.layers, all_but_last, pattern)) {
    if (slides && window == 0)
      throw config.unsupported_value("sliding_window", "a number, because layers have a window");
    rules.push_back({.scores = {.scale = scale, .window = slides ? window : 0},
                     .rope_frequencies = slides ? ropes.sliding : ropes.full});
  }
  set_attention(m, std::move(rules));
  map_gemma(config, names, stack);
  return stack;
}

/// A model with a picture tower keeps its text model's keys under text_config.
FamilyStack read(ConfigReader& config, const TensorNames& names) {
  if (!config.has("text_config")) return read_text(config, names);
  skip_harmless_keys(config);
  constexpr std::array<std::string_view, 9> of_pictures{
      "vision_config",   "mm_tokens_per_image", "boi_token_index",
      "eoi_token_index", "image_token_index",   "boi_token_id",
      "eoi_token_id",    "image_token_id",      "vision_soft_tokens_per_image"};
  config.harmless(of_pictures);
  config.must_be("tie_word_embeddings", true);
  ConfigReader text = config.object("text_config");
  text.must_be("model_type", "gemma3_text");
  text.must_be("final_logit_softcapping", nullptr);  // that class does not apply it
  text.must_be("tie_word_embeddings", true);
  FamilyStack stack = read_text(text, names);
  text.finish();
  stack.warnings.emplace_back("the text model of a model for text and pictures");
  return stack;
}

nlohmann::ordered_json write(const ModelSpec& m) {
  nlohmann::ordered_json json = gemma_config(m, "gemma3_text", "Gemma3");
  if (!m.unembedding) json["architectures"] = {"Gemma3TextModel"};
  const nlohmann::ordered_json rope = json["rope_parameters"];
  json["rope_parameters"] = {{"full_attention", rope}, {"sliding_attention", rope}};
  return json;
}

}  // namespace

const Family& gemma3_family() {
  static const Family family{
      .name = "gemma3",
      .model_types = {"gemma3_text", "gemma3"},
      .architectures = {"Gemma3ForCausalLM", "Gemma3TextModel", "Gemma3ForConditionalGeneration"},
      .body = "model.",
      .anchor = "embed_tokens.weight",
      .aliases = {},
      .other_parts = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."},
      .read = read,
      .write = write};
  return family;
}

}  // namespace periscope
