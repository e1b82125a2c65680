#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

/// Reads what Qwen 2 and 3 add to Llama's keys: from layer max_window_layers on a window, if use_sliding_window says
/// so.
void read_windows(ConfigReader& config, ModelSpec& m, std::vector<AttentionRule> rules) {
  const bool windows = config.flag_or("use_sliding_window", false);
  const int window = config.integer_or_none("sliding_window", 4096, most_tokens).value_or(0);
  const int first = config.integer_or("max_window_layers", 28, most_layers, 0);
  const bool usable = windows && window > 0;
  const auto from_first = [](int layer, int parameter) { return layer >= parameter; };
  const std::vector<bool> sliding = read_sliding_layers(config, m.layers, from_first, usable ? first : m.layers);
  for (std::size_t layer = 0; layer < rules.size(); ++layer) {
    if (!sliding[layer]) continue;
    if (!usable) {
      throw config.unsupported_value("layer_types",
                                     "no sliding_attention without use_sliding_window and sliding_window");
    }
    rules[layer].scores.window = window;
  }
  set_attention(m, std::move(rules));
}

/// Queries, keys and values have biases, the output has none.
FamilyStack read_qwen2(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  read_windows(config, stack.model, read_llama_like(config, stack.model, {.kv_heads = 32, .context = 32768}));
  map_llama_like(config, names, stack, {.qkv_bias = true});
  return stack;
}

nlohmann::ordered_json write_qwen2(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "qwen2", "Qwen2");
  json.erase("attention_bias");
  return json;
}

/// QK-norm of every head; biases of all four projections if attention_bias says so.
FamilyStack read_qwen3(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  const LlamaDefaults defaults{.kv_heads = 32, .head_dim = 128, .context = 32768};
  read_windows(config, stack.model, read_llama_like(config, stack.model, defaults));
  stack.model.qk_norm = QkNorm::head;
  const bool bias = config.flag_or("attention_bias", false);
  map_llama_like(config, names, stack, {.qkv_bias = bias, .o_bias = bias});
  return stack;
}

nlohmann::ordered_json write_qwen3(const ModelSpec& m) { return llama_like_config(m, "qwen3", "Qwen3"); }

}  // namespace

Family qwen2_family() {
  return {.name = "qwen2",
          .model_types = {"qwen2"},
          .architectures = {"Qwen2ForCausalLM", "Qwen2Model"},
          .read = read_qwen2,
          .write = write_qwen2};
}

Family qwen3_family() {
  return {.name = "qwen3",
          .model_types = {"qwen3"},
          .architectures = {"Qwen3ForCausalLM", "Qwen3Model"},
          .read = read_qwen3,
          .write = write_qwen3};
}

}  // namespace periscope
