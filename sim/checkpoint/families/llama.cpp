#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/families/llama_like.h"
#include "sim/checkpoint/families/rope.h"

namespace periscope {
namespace {

/// Llama and Mistral: Pre-LN, RMSNorm, gated MLP, RoPE. Mistral has no biases, but a window.
FamilyStack read_stack(ConfigReader& config, const TensorNames& names, bool mistral) {
  skip_harmless_keys(config);
  FamilyStack stack;
  ModelSpec& m = stack.model;
  m.placement = *find_placement("pre");
  read_sizes(config, m);
  read_kv_heads(config, m, mistral ? 8 : 0);
  read_head_dim(config, m);
  m.mlp = read_gated_mlp(config, "hidden_act", "silu");
  m.norm_eps = config.positive_or("rms_norm_eps", 1e-6);
  const int context = config.integer_or("max_position_embeddings", mistral ? 131072 : 2048, most_tokens);
  AttentionRule rule;
  rule.rope_frequencies = read_rope(config, m.head_dim, rope_base, context);
  LlamaNames llama;
  if (mistral) {
    rule.scores.window = config.integer_or_none("sliding_window", 4096, most_tokens).value_or(0);
    config.must_be("attention_bias", false);
    config.must_be("mlp_bias", false);
    config.must_be("layer_types", nullptr);
  } else {
    llama.qkv_bias = llama.o_bias = config.flag_or("attention_bias", false);
    llama.mlp_bias = config.flag_or("mlp_bias", false);
  }
  set_attention(m, std::vector<AttentionRule>(static_cast<std::size_t>(m.layers), rule));
  map_llama(stack, llama);
  map_head(config, names, stack, false, "model.embed_tokens.weight");
  return stack;
}

nlohmann::ordered_json write_llama(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_config(m, "llama", "Llama");
  json["hidden_act"] = activation_name(m.mlp);
  json["mlp_bias"] = false;
  return json;
}

nlohmann::ordered_json write_mistral(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_config(m, "mistral", "Mistral");
  json["hidden_act"] = activation_name(m.mlp);
  json["sliding_window"] = nullptr;
  json.erase("attention_bias");
  return json;
}

}  // namespace

const Family& llama_family() {
  static const Family family{
      .name = "llama",
      .model_types = {"llama"},
      .architectures = {"LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"},
      .body = "model.",
      .anchor = "embed_tokens.weight",
      .aliases = {},
      .other_parts = {},
      .read = [](ConfigReader& config, const TensorNames& names) { return read_stack(config, names, false); },
      .write = write_llama};
  return family;
}

const Family& mistral_family() {
  static const Family family{
      .name = "mistral",
      .model_types = {"mistral"},
      .architectures = {"MistralForCausalLM", "MistralModel"},
      .body = "model.",
      .anchor = "embed_tokens.weight",
      .aliases = {},
      .other_parts = {},
      .read = [](ConfigReader& config, const TensorNames& names) { return read_stack(config, names, true); },
      .write = write_mistral};
  return family;
}

}  // namespace periscope
