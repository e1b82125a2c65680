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
/// Family of checkpoints that only `train` writes, for stacks that no public family supports. It has no recipe.
Family periscope_family();

// -- config.json: keys shared by several families --------------------------------------------------
inline constexpr int max_width = 1 << 20;
inline constexpr int max_layers = 10'000;
inline constexpr int max_tokens = 1 << 24;
/// Number of positions in a written checkpoint if the stack has no learned positions.
inline constexpr int default_positions = 1024;

/// Accepts keys of any config.json that do not change the model's function (identifiers, dropout, generation, limits),
/// and inert keys with an accepted value. `causal` means that the public implementation reads is_causal.
void skip_harmless_keys(ConfigReader& config, bool causal = true);

/// True if config.json names a class without a head, such as "LlamaModel".
bool is_headless(ConfigReader& config);
/// Returns `with_head`, or `without` for a stack without logits.
std::string architecture_for(const ModelSpec& model, std::string_view with_head, std::string_view without);

/// Reads hidden_size, num_hidden_layers, num_attention_heads, intermediate_size and vocab_size.
void read_sizes(ConfigReader& config, ModelSpec& model);

/// Reads the number of layers, at most the number of tensors in the files. Without `fallback` the key is required.
int read_layers(ConfigReader& config, std::string_view key, std::optional<int> fallback = {});

/// Reads num_key_value_heads, a divisor of the number of heads. An absent key means `fallback`, or the number of heads
/// if `fallback` is 0. Null means the number of heads if `null` is true, else it is rejected.
void read_kv_heads(ConfigReader& config, ModelSpec& model, int fallback, bool null);

/// Reads head_dim, which must be even for RoPE. An absent key means `fallback`, or width / heads if `fallback` is 0.
/// Every layer has a matrix with at least head_dim rows, so layers · head_dim must be at most the number of values.
void read_head_dim(ConfigReader& config, ModelSpec& model, int fallback = 0);
/// Returns width / heads, for families without a key for head_dim.
int divided_head_dim(const ConfigReader& config, const ModelSpec& model, std::string_view width_key,
                     std::string_view heads_key);

MlpKind read_plain_mlp(ConfigReader& config, std::string_view key, std::string_view fallback);
MlpKind read_gated_mlp(ConfigReader& config, std::string_view key, std::string_view fallback);
std::string activation_name(MlpKind kind, bool old_gelu = false);

/// Returns whether each layer's attention has a window, from layer_types or, in older files, from the rule `older`.
std::vector<bool> read_sliding_layers(ConfigReader& config, int layers, bool (*older)(int layer, int parameter),
                                      int parameter);

/// Sets model.attention to `rules`, one per layer; leaves it empty if all are the default rule.
void set_attention(ModelSpec& model, std::vector<AttentionRule> rules);

// -- RoPE frequencies ------------------------------------------------------------------------------
/// Reads the RoPE frequencies of a head of width `head_dim`, from rope_parameters (files since transformers 5) or from
/// rope_theta and rope_scaling (older files). Types: default, linear (all frequencies divided by factor), and llama3
/// (long waves divided by factor, short ones unchanged, interpolated in between). Rejects other types and
/// contradictory settings. `context` is max_position_embeddings, the default for the original context length of llama3.
std::vector<double> read_rope(ConfigReader& config, int head_dim, double fallback_theta, int context);

/// Like read_rope, for the object that contains rope_type and its parameters.
std::vector<double> read_rope_object(ConfigReader& rope, int head_dim, double fallback_theta, int context);

/// Returns base^(−2i/head_dim)/divisor for i < head_dim/2.
std::vector<double> scaled_frequencies(int head_dim, double base, double divisor = 1.0);

// -- tensor names -----------------------------------------------------------------------------------
/// A parameter that is stored as a whole tensor.
StoredPart whole(std::string tensor, double plus = 0.0);
/// Maps a matrix to NAME.weight and, with `bias`, its bias to NAME.bias.
void map_linear(ParameterMap& map, int layer, Weight matrix, const std::string& name, bool bias = true);
/// Returns the gain NAME.weight and the bias NAME.bias of a LayerNorm.
StoredNorm layer_norm(const std::string& name);

/// Maps the unembedding to `embedding` if tie_word_embeddings is true, else to `head`, if there is a head.
void map_head(ConfigReader& config, const TensorNames& names, FamilyStack& stack, bool tied_by_default,
              const std::string& embedding, const std::string& head = "lm_head.weight");

// -- Llama and families derived from it -------------------------------------------------------------
/// Default values of keys. read_kv_heads and read_head_dim define the meanings of 0 and null.
struct LlamaDefaults {
  int kv_heads = 0;
  bool null_kv_heads = true;
  int head_dim = 0;
  double norm_eps = 1e-6;
  int context = 2048;
};
/// Reads the keys of a Pre-LN stack with RMSNorm, a gated MLP and RoPE. Returns the attention rule of every layer: the
/// default rule with the RoPE frequencies that were read.
std::vector<AttentionRule> read_llama_like(ConfigReader& config, ModelSpec& model, const LlamaDefaults& defaults);

/// Attention projections with biases; by_key means all four if attention_bias is true.
enum class AttentionBiases { by_key, qkv, none };
/// Differences between the families that name their tensors model.layers.{i}.self_attn.q_proj and so on.
struct LlamaTensors {
  AttentionBiases biases = AttentionBiases::by_key;
  bool mlp_bias = false;
  bool tied_by_default = false;  ///< see map_head
  double gain_plus = 0.0;        ///< added to stored gains: 1 if they are stored as gain − 1
  // Names of the norms after "model.layers.{i}."; empty means that there is no such norm.
  std::string_view attention_a = "input_layernorm";
  std::string_view attention_b = {};
  std::string_view mlp_a = "post_attention_layernorm";
  std::string_view mlp_b = {};
};
void map_llama_like(ConfigReader& config, const TensorNames& names, FamilyStack& stack, const LlamaTensors& tensors);

/// Returns the keys of a config.json that all families derived from Llama have. `class_stem` is "Llama" for
/// LlamaForCausalLM.
nlohmann::ordered_json llama_like_config(const ModelSpec& model, std::string_view model_type,
                                         std::string_view class_stem, std::string_view activation_key = "hidden_act");

}  // namespace periscope
