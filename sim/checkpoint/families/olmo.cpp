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

}  // namespace

Family olmo2_family() {
  return {.name = "olmo2",
          .architectures = {"Olmo2ForCausalLM", "Olmo2Model"},
          .read = read_olmo2,
          .write = [](const ModelSpec& m) { return llama_like_config(m, "olmo2", "Olmo2"); }};
}

}  // namespace periscope
