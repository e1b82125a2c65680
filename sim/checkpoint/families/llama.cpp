#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

FamilyStack read_llama(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  config.null_is_absent("head_dim");
  set_attention(stack.model, read_llama_like(config, stack.model, {}));
  const bool bias = config.flag_or("attention_bias", false);
  const bool mlp_bias = config.flag_or("mlp_bias", false);
  map_llama_like(config, names, stack, {.qkv_bias = bias, .o_bias = bias, .mlp_bias = mlp_bias});
  return stack;
}

nlohmann::ordered_json write_llama(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "llama", "Llama");
  json["mlp_bias"] = false;
  return json;
}

/// No biases, but a window.
FamilyStack read_mistral(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  config.null_is_absent("head_dim");
  const LlamaDefaults defaults{.kv_heads = 8, .null_kv_heads = false, .context = 131072};
  std::vector<AttentionRule> rules = read_llama_like(config, stack.model, defaults);
  const int window = config.integer_or_none("sliding_window", 4096, most_tokens).value_or(0);
  for (AttentionRule& rule : rules) rule.scores.window = window;
  set_attention(stack.model, std::move(rules));
  config.must_be("attention_bias", false);
  config.must_be("mlp_bias", false);
  config.must_be("layer_types", nullptr);
  map_llama_like(config, names, stack, {});
  return stack;
}

nlohmann::ordered_json write_mistral(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "mistral", "Mistral");
  json["sliding_window"] = nullptr;
  json.erase("attention_bias");
  return json;
}

}  // namespace

Family llama_family() {
  return {.name = "llama",
          .model_types = {"llama"},
          .architectures = {"LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"},
          .read = read_llama,
          .write = write_llama};
}

Family mistral_family() {
  return {.name = "mistral",
          .model_types = {"mistral"},
          .architectures = {"MistralForCausalLM", "MistralModel"},
          .read = read_mistral,
          .write = write_mistral};
}

}  // namespace periscope
