#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/families/gemma.h"
#include "sim/checkpoint/families/rope.h"

namespace periscope {
namespace {

/// Soft caps of scores and logits; a window in every other layer, from the first.
FamilyStack read(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  read_gemma(config, m);
  m.vocab = config.integer_or("vocab_size", 256000, most_tokens);
  m.head.soft_cap = config.positive_or_none("final_logit_softcapping", 30.0).value_or(0.0);
  const int window = config.integer_or_none("sliding_window", 4096, most_tokens).value_or(0);
  AttentionRule rule;
  const int context = config.integer_or("max_position_embeddings", 8192, most_tokens);
  rule.rope_frequencies = read_rope(config, m.head_dim, rope_base, context);
  rule.scores.scale = read_score_scale(config, m.head_dim);
  rule.scores.soft_cap = config.positive_or_none("attn_logit_softcapping", 50.0).value_or(0.0);
  const auto every_other = [](int layer, int) { return layer % 2 == 0; };
  std::vector<AttentionRule> rules;
  for (const bool slides : read_sliding_layers(config, m.layers, every_other, 0)) {
    if (slides && window == 0)
      throw config.unsupported_value("sliding_window", "a number, because layers have a window");
    rules.push_back(rule);
    rules.back().scores.window = slides ? window : 0;
  }
  set_attention(m, std::move(rules));
  map_gemma(config, names, stack);
  return stack;
}

nlohmann::ordered_json write(const ModelSpec& m) { return gemma_config(m, "gemma2", "Gemma2"); }

}  // namespace

const Family& gemma2_family() {
  static const Family family{.name = "gemma2",
                             .model_types = {"gemma2"},
                             .architectures = {"Gemma2ForCausalLM", "Gemma2Model"},
                             .body = "model.",
                             .anchor = "embed_tokens.weight",
                             .aliases = {},
                             .other_parts = {},
                             .read = read,
                             .write = write};
  return family;
}

}  // namespace periscope
