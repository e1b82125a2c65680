#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/families/qwen.h"

namespace periscope {
namespace {

/// QK-norm of every head; biases of all four projections if attention_bias says so.
FamilyStack read(ConfigReader& config, const TensorNames& names) {
  skip_harmless_keys(config);
  FamilyStack stack;
  read_sizes(config, stack.model);
  read_kv_heads(config, stack.model, 32);
  read_head_dim(config, stack.model, 128);
  read_qwen(config, stack);
  stack.model.qk_norm = QkNorm::head;
  const bool bias = config.flag_or("attention_bias", false);
  map_llama(stack, {.qkv_bias = bias, .o_bias = bias});
  map_head(config, names, stack, false, "model.embed_tokens.weight");
  return stack;
}

nlohmann::ordered_json write(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_config(m, "qwen3", "Qwen3");
  json["hidden_act"] = activation_name(m.mlp);
  return json;
}

}  // namespace

const Family& qwen3_family() {
  static const Family family{.name = "qwen3",
                             .model_types = {"qwen3"},
                             .architectures = {"Qwen3ForCausalLM", "Qwen3Model"},
                             .body = "model.",
                             .anchor = "embed_tokens.weight",
                             .aliases = {},
                             .other_parts = {},
                             .read = read,
                             .write = write};
  return family;
}

}  // namespace periscope
