#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/families/qwen.h"

namespace periscope {
namespace {

/// Queries, keys and values have biases, the output has none.
FamilyStack read(ConfigReader& config, const TensorNames& names) {
  skip_harmless_keys(config);
  FamilyStack stack;
  read_sizes(config, stack.model);
  read_kv_heads(config, stack.model, 32);
  read_head_dim(config, stack.model);
  read_qwen(config, stack);
  map_llama(stack, {.qkv_bias = true});
  map_head(config, names, stack, false, "model.embed_tokens.weight");
  return stack;
}

nlohmann::ordered_json write(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_config(m, "qwen2", "Qwen2");
  json["hidden_act"] = activation_name(m.mlp);
  json.erase("attention_bias");
  return json;
}

}  // namespace

const Family& qwen2_family() {
  static const Family family{.name = "qwen2",
                             .model_types = {"qwen2"},
                             .architectures = {"Qwen2ForCausalLM", "Qwen2Model"},
                             .body = "model.",
                             .anchor = "embed_tokens.weight",
                             .aliases = {},
                             .other_parts = {},
                             .read = read,
                             .write = write};
  return family;
}

}  // namespace periscope
