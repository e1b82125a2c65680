#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

/// Placement B only, i.e. one norm after each module, on the branch; QK-norm of whole projections.
void map_olmo(ConfigReader& config, const TensorNames& names, FamilyStack& stack) {
  config.must_be("clip_qkv", nullptr);
  map_llama_like(config, names, stack,
                 {.attention_a = {},
                  .attention_b = "post_attention_layernorm",
                  .mlp_a = {},
                  .mlp_b = "post_feedforward_layernorm"});
}

void set_olmo(ModelSpec& m, std::vector<AttentionRule> rules) {
  m.placement = *find_placement("b-only");
  m.qk_norm = QkNorm::full;
  set_attention(m, std::move(rules));
}

FamilyStack read_olmo2(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  set_olmo(stack.model, read_llama_like(config, stack.model, {.norm_eps = 1e-5}));
  map_olmo(config, names, stack);
  return stack;
}

/// Olmo 3: Olmo 2 with an attention window in three of four layers. RoPE is scaled in the other layers only.
FamilyStack read_olmo3(ConfigReader& config, const TensorNames& names) {
  constexpr double theta = 500000.0;
  FamilyStack stack;
  ModelSpec& m = stack.model;
  const LlamaDefaults defaults{.norm_eps = 1e-5, .rope = {.theta = theta, .context = 2048}};
  const RopePair ropes = read_ropes(config, m, read_llama_shape(config, m, defaults), theta);
  const auto all_but_fourth = [](int layer) { return (layer + 1) % 4 != 0; };
  const int window = config.integer_or_none("sliding_window", 4096, max_tokens).value_or(0);
  set_olmo(m, {});
  set_layer_types(config, m, read_sliding_layers(config, m.layers, all_but_fourth), window, ropes.full, ropes.sliding);
  map_olmo(config, names, stack);
  return stack;
}

nlohmann::ordered_json write_olmo3(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "olmo3", "Olmo3");
  const nlohmann::ordered_json rope = json["rope_parameters"];
  json["rope_parameters"] = {{"full_attention", rope}, {"sliding_attention", rope}};
  json["layer_types"] = std::vector<std::string>(static_cast<std::size_t>(m.layers), "full_attention");
  return json;
}

}  // namespace

Family olmo2_family() {
  return {.name = "olmo2",
          .architectures = {"Olmo2ForCausalLM", "Olmo2Model"},
          .read = read_olmo2,
          .write = [](const ModelSpec& m) { return llama_like_config(m, "olmo2", "Olmo2"); }};
}

Family olmo3_family() {
  return {
      .name = "olmo3", .architectures = {"Olmo3ForCausalLM", "Olmo3Model"}, .read = read_olmo3, .write = write_olmo3};
}

}  // namespace periscope
