#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

/// B-only: the two norms of a layer are on the branches. QK-norm of the whole projections.
FamilyStack read_olmo2(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  set_attention(m, read_llama_like(config, m, {.norm_eps = 1e-5}));
  m.placement = *find_placement("b-only");
  m.qk_norm = QkNorm::full;
  config.must_be("clip_qkv", nullptr);
  const bool bias = config.flag_or("attention_bias", false);
  map_llama_like(config, names, stack,
                 {.qkv_bias = bias,
                  .o_bias = bias,
                  .attention_a = {},
                  .attention_b = "post_attention_layernorm",
                  .mlp_a = {},
                  .mlp_b = "post_feedforward_layernorm"});
  return stack;
}

nlohmann::ordered_json write_olmo2(const ModelSpec& m) { return llama_like_config(m, "olmo2", "Olmo2"); }

}  // namespace

Family olmo2_family() {
  return {.name = "olmo2",
          .model_types = {"olmo2"},
          .architectures = {"Olmo2ForCausalLM", "Olmo2Model"},
          .read = read_olmo2,
          .write = write_olmo2};
}

}  // namespace periscope
