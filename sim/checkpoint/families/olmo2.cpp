#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/families/llama_like.h"
#include "sim/checkpoint/families/rope.h"

namespace periscope {
namespace {

/// B-only: the two norms of a layer are on the branches. QK-norm of the whole projections.
FamilyStack read(ConfigReader& config, const TensorNames& names) {
  skip_harmless_keys(config);
  FamilyStack stack;
  ModelSpec& m = stack.model;
  m.placement = *find_placement("b-only");
  m.qk_norm = QkNorm::full;
  read_sizes(config, m);
  read_kv_heads(config, m);
  read_head_dim(config, m);
  m.mlp = read_gated_mlp(config, "hidden_act", "silu");
  m.norm_eps = config.positive_or("rms_norm_eps", 1e-5);
  config.must_be("clip_qkv", nullptr);
  AttentionRule rule;
  const int context = config.integer_or("max_position_embeddings", 2048, most_tokens);
  rule.rope_frequencies = read_rope(config, m.head_dim, rope_base, context);
  set_attention(m, std::vector<AttentionRule>(static_cast<std::size_t>(m.layers), rule));
  const bool bias = config.flag_or("attention_bias", false);
  map_llama(stack, {.qkv_bias = bias,
                    .o_bias = bias,
                    .attention_a = {},
                    .attention_b = "post_attention_layernorm",
                    .mlp_a = {},
                    .mlp_b = "post_feedforward_layernorm"});
  map_head(config, names, stack, false, "model.embed_tokens.weight");
  return stack;
}

nlohmann::ordered_json write(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_config(m, "olmo2", "Olmo2");
  json["hidden_act"] = activation_name(m.mlp);
  return json;
}

}  // namespace

const Family& olmo2_family() {
  static const Family family{.name = "olmo2",
                             .model_types = {"olmo2"},
                             .architectures = {"Olmo2ForCausalLM", "Olmo2Model"},
                             .body = "model.",
                             .anchor = "embed_tokens.weight",
                             .aliases = {},
                             .other_parts = {},
                             .read = read,
                             .write = write};
  return family;
}

}  // namespace periscope
