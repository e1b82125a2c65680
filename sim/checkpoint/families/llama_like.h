#pragma once

#include "sim/checkpoint/families/common.h"

namespace periscope {

/// The names of Llama and its descendants: model.layers.{i}.self_attn.q_proj and so on.
struct LlamaNames {
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  double gain_plus = 0.0;  ///< 1 for gains stored as w of 1 + w
  // Of the norms, after "model.layers.{i}."; empty: there is none.
  std::string_view attention_a = "input_layernorm";
  std::string_view attention_b = {};
  std::string_view mlp_a = "post_attention_layernorm";
  std::string_view mlp_b = {};
};
void map_llama(FamilyStack& stack, const LlamaNames& names);

/// What every written config.json of Llama's descendants begins with.
/// `class_stem`: "Llama" of LlamaForCausalLM.
nlohmann::ordered_json llama_config(const ModelSpec& model, std::string_view model_type, std::string_view class_stem);

}  // namespace periscope
