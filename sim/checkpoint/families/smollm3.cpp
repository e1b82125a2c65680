#include <fmt/format.h>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

/// Returns whether each layer has RoPE, from no_rope_layers (1: RoPE) or the interval of layers without it.
std::vector<bool> read_rope_layers(ConfigReader& config, int layers) {
  constexpr std::string_view key = "no_rope_layers";
  const int interval = config.integer_or("no_rope_layer_interval", 4, max_layers);
  std::vector<bool> has_rope;
  if (!config.has(key)) {
    config.must_be(key, nullptr);
    for (int layer = 0; layer < layers; ++layer) has_rope.push_back((layer + 1) % interval != 0);
    return has_rope;
  }
  std::vector<int> given;
  const std::string expected = fmt::format("a list of 0 and 1 with at least num_hidden_layers = {} entries", layers);
  (void)config.read(key, given);
  if (std::ssize(given) < layers) config.fail(key, expected);
  for (const int flag : given) {
    if (flag != 0 && flag != 1) config.fail(key, expected);
    has_rope.push_back(flag == 1);
  }
  return has_rope;
}

/// SmolLM3: Llama without RoPE in every fourth layer, where attention may have a window.
FamilyStack read_smollm3(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  std::vector<AttentionRule> rules =
      read_llama_like(config, m, {.kv_heads = 4, .rope = {.theta = 2e6, .context = 32768}});
  const std::vector<bool> has_rope = read_rope_layers(config, m.layers);
  const bool windows = config.flag_or("use_sliding_window", false);
  const int window = config.integer_or_none("sliding_window", std::nullopt, max_tokens).value_or(0);
  const std::vector<bool> sliding = read_sliding_layers(
      config, m.layers, [&](int layer) { return windows && window > 0 && !has_rope[static_cast<std::size_t>(layer)]; });
  const AttentionRule without_rope{.rope_frequencies = std::vector<double>(static_cast<std::size_t>(m.head_dim / 2))};
  for (std::size_t layer = 0; layer < rules.size(); ++layer) {
    if (!has_rope[layer]) rules[layer] = without_rope;
  }
  set_windows(config, rules, sliding, windows ? window : 0);
  set_attention(m, std::move(rules));
  config.harmless({"max_window_layers"});
  map_llama_like(config, names, stack, {.mlp_bias = config.flag_or("mlp_bias", false), .tied_by_default = true});
  return stack;
}

nlohmann::ordered_json write_smollm3(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "smollm3", "SmolLM3");
  json["mlp_bias"] = false;
  json["no_rope_layers"] = std::vector<int>(static_cast<std::size_t>(m.layers), 1);
  json["pad_token_id"] = nullptr;  // the default exceeds the vocabulary of small models
  return json;
}

}  // namespace

Family smollm3_family() {
  return {.name = "smollm3",
          .architectures = {"SmolLM3ForCausalLM", "SmolLM3Model"},
          .read = read_smollm3,
          .write = write_smollm3};
}

}  // namespace periscope
