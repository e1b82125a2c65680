#include "sim/checkpoint/families/qwen.h"

#include "sim/checkpoint/families/rope.h"

namespace periscope {

void read_qwen(ConfigReader& config, FamilyStack& stack) {
  ModelSpec& m = stack.model;
  m.placement = *find_placement("pre");
  m.mlp = read_gated_mlp(config, "hidden_act", "silu");
  m.norm_eps = config.positive_or("rms_norm_eps", 1e-6);
  const int context = config.integer_or("max_position_embeddings", 32768, most_tokens);
  AttentionRule rule;
  rule.rope_frequencies = read_rope(config, m.head_dim, rope_base, context);

  const bool windows = config.flag_or("use_sliding_window", false);
  const int window = config.integer_or_none("sliding_window", 4096, most_tokens).value_or(0);
  const int first = config.integer_or("max_window_layers", 28, most_layers, 0);
  const auto from_first = [](int layer, int parameter) { return layer >= parameter; };
  const std::vector<bool> sliding =
      read_sliding_layers(config, m.layers, from_first, windows && window > 0 ? first : m.layers);
  std::vector<AttentionRule> rules;
  for (const bool slides : sliding) {
    if (slides && !(windows && window > 0)) {
      throw config.unsupported_value("layer_types",
                                     "no sliding_attention without use_sliding_window and sliding_window");
    }
    rules.push_back(rule);
    rules.back().scores.window = slides ? window : 0;
  }
  set_attention(m, std::move(rules));
}

}  // namespace periscope
