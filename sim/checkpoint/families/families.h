#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/checkpoint/family.h"

namespace periscope {

Family llama_family();
Family mistral_family();
Family qwen2_family();
Family qwen3_family();
Family gpt2_family();
Family gemma2_family();
Family gemma3_family();
Family olmo2_family();
Family bert_family();
Family opt_family();
/// Returns the family of the checkpoints that this program writes for stacks that no other family computes. It is no
/// recipe, and `train` alone writes it.
Family own_family();

// -- what several families' config.json have in common ---------------------------------------------
inline constexpr int most_wide = 1 << 20;
inline constexpr int most_layers = 10'000;
inline constexpr int most_tokens = 1 << 24;
/// Positions that a written checkpoint has if the stack has no learned ones yet.
inline constexpr int default_positions = 1024;

/// Accepts the keys of any config.json that do not change the function (identifiers, dropout, generation, limits), and
/// the keys that are inert at their value. `causal`: the public implementation reads is_causal.
void skip_harmless_keys(ConfigReader& config, bool causal = true);

/// True if config.json names a class without a head, such as "LlamaModel".
bool is_headless(ConfigReader& config);
/// `with_head` or, for a stack without logits, `without`.
std::string architecture_for(const ModelSpec& model, std::string_view with_head, std::string_view without);

/// hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, vocab_size.
void read_sizes(ConfigReader& config, ModelSpec& model);

/// The number of layers, at most the number of tensors in the files. Without `fallback` the key is required.
int read_layers(ConfigReader& config, std::string_view key, std::optional<int> fallback = {});

/// Reads num_key_value_heads, a divisor of the number of heads. Absent: `fallback`, or the number of heads if that is
/// 0. Null: the number of heads if `null`, else rejected.
void read_kv_heads(ConfigReader& config, ModelSpec& model, int fallback, bool null);

/// head_dim; absent: `fallback`, or the width over the heads if that is 0. RoPE wants it even. Every layer has matrices
/// with more rows than that, so the layers together have no more than the files have numbers.
void read_head_dim(ConfigReader& config, ModelSpec& model, int fallback = 0);
/// Width over heads, for the families that have no key for it.
int divided_head_dim(const ConfigReader& config, const ModelSpec& model, std::string_view width_key,
                     std::string_view heads_key);

MlpKind read_plain_mlp(ConfigReader& config, std::string_view key, std::string_view fallback);
MlpKind read_gated_mlp(ConfigReader& config, std::string_view key, std::string_view fallback);
std::string activation_name(MlpKind kind, bool old_gelu = false);

/// Whether each layer's attention has a window, from layer_types or the rule of older files.
std::vector<bool> read_sliding_layers(ConfigReader& config, int layers, bool (*older)(int layer, int parameter),
                                      int parameter);

/// Leaves model.attention empty where `rules`, one per layer, say no more than the plain rule.
void set_attention(ModelSpec& model, std::vector<AttentionRule> rules);

// -- RoPE's frequencies ----------------------------------------------------------------------------
/// RoPE's frequencies for a head of `head_dim`, from rope_parameters (files since transformers 5) or rope_theta and
/// rope_scaling (older files): types default, linear (all divided by factor) and llama3 (long waves divided by factor,
/// short ones not, those between interpolated). Rejects other types, and two spellings that differ.
/// `context`: max_position_embeddings, the default of llama3's original length.
std::vector<double> read_rope(ConfigReader& config, int head_dim, double fallback_theta, int context);

/// The same from the object that holds rope_type and its numbers.
std::vector<double> read_rope_object(ConfigReader& rope, int head_dim, double fallback_theta, int context);

/// base^(−2i/head_dim)/divisor.
std::vector<double> scaled_frequencies(int head_dim, double base, double divisor = 1.0);

// -- names of tensors ------------------------------------------------------------------------------
/// A parameter that is a whole tensor.
StoredPart whole(std::string tensor, double plus = 0.0);
/// A matrix NAME.weight and, with `bias`, NAME.bias.
void map_linear(ParameterMap& map, int layer, Weight matrix, const std::string& name, bool bias = true);
/// LayerNorm's NAME.weight and NAME.bias.
StoredNorm layer_norm(const std::string& name);

/// tie_word_embeddings: the unembedding is `embedding`, or `head`. A checkpoint of a model without head has neither.
void map_head(ConfigReader& config, const TensorNames& names, FamilyStack& stack, bool tied_by_default,
              const std::string& embedding, const std::string& head = "lm_head.weight");

// -- Llama and its descendants ---------------------------------------------------------------------
/// Values of absent keys; 0 and null as in read_kv_heads and read_head_dim.
struct LlamaDefaults {
  int kv_heads = 0;
  bool null_kv_heads = true;
  int head_dim = 0;
  double norm_eps = 1e-6;
  int context = 2048;
};
/// Reads the keys of a Pre-LN stack with RMSNorm, a gated MLP and RoPE. Returns every layer's attention: the plain
/// rule with RoPE's frequencies.
std::vector<AttentionRule> read_llama_like(ConfigReader& config, ModelSpec& model, const LlamaDefaults& defaults);

/// by_key: all four projections, if attention_bias is true.
enum class AttentionBiases { by_key, qkv, none };
/// How families differ in their tensors, which are named model.layers.{i}.self_attn.q_proj and so on.
struct LlamaTensors {
  AttentionBiases biases = AttentionBiases::by_key;
  bool mlp_bias = false;
  bool tied_by_default = false;  ///< see map_head
  double gain_plus = 0.0;        ///< 1 for gains stored as w of 1 + w
  // Of the norms, after "model.layers.{i}."; empty: there is none.
  std::string_view attention_a = "input_layernorm";
  std::string_view attention_b = {};
  std::string_view mlp_a = "post_attention_layernorm";
  std::string_view mlp_b = {};
};
void map_llama_like(ConfigReader& config, const TensorNames& names, FamilyStack& stack, const LlamaTensors& tensors);

/// The keys that every written config.json of Llama's descendants has. `class_stem`: "Llama" of LlamaForCausalLM.
nlohmann::ordered_json llama_like_config(const ModelSpec& model, std::string_view model_type,
                                         std::string_view class_stem, std::string_view activation_key = "hidden_act");

}  // namespace periscope
