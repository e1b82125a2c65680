#include <cmath>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

double plain_scale(const ModelSpec& m) { return 1.0 / std::sqrt(static_cast<double>(m.head_dim)); }

/// Granite: Llama with factors of embeddings, branches, attention scores and logits.
FamilyStack read_granite(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  std::vector<AttentionRule> rules = read_llama_like(config, m, {});
  const double score = config.positive_or("attention_multiplier", 1.0);
  for (AttentionRule& rule : rules) rule.scores.scale = score == plain_scale(m) ? 0.0 : score;
  set_attention(m, std::move(rules));
  m.embedding.scale = config.positive_or("embedding_multiplier", 1.0);
  const double beta = config.positive_or("residual_multiplier", 1.0);
  if (beta != 1.0) m.placement = custom_placement({.norm_a = true, .beta = beta});
  m.head.scale = 1.0 / config.positive_or("logits_scaling", 1.0);
  map_llama_like(config, names, stack, {.mlp_bias = config.flag_or("mlp_bias", false)});
  return stack;
}

nlohmann::ordered_json write_granite(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "granite", "Granite");
  json["mlp_bias"] = false;
  const double scale = m.scores_at(0).scale;
  json["attention_multiplier"] = scale == 0.0 ? plain_scale(m) : scale;
  json["embedding_multiplier"] = m.embedding.scale;
  json["residual_multiplier"] = m.rule(0).beta;
  json["logits_scaling"] = 1.0 / m.head.scale;
  return json;
}

}  // namespace

Family granite_family() {
  return {.name = "granite",
          .architectures = {"GraniteForCausalLM", "GraniteModel"},
          .read = read_granite,
          .write = write_granite};
}

}  // namespace periscope
