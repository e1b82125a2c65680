#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
Family gemma4_family();
Family olmo2_family();
Family olmo3_family();
Family bert_family();
Family opt_family();
Family gpt_neox_family();
Family granite_family();
Family phi3_family();
Family glm4_family();
Family smollm3_family();
Family mixtral_family();
Family qwen3_moe_family();
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
void read_kv_heads(ConfigReader& config, ModelSpec& model, int fallback, bool null,
                   std::string_view key = "num_key_value_heads");

/// Reads head_dim, which must be even for RoPE. An absent key means `fallback`, or width / heads if `fallback` is 0.
/// Every layer has a matrix with at least head_dim rows, so layers · head_dim must be at most the number of values.
void read_head_dim(ConfigReader& config, ModelSpec& model, int fallback = 0, std::string_view key = "head_dim");
/// Returns width / heads, for families without a key for head_dim.
int divided_head_dim(const ConfigReader& config, const ModelSpec& model, std::string_view width_key,
                     std::string_view heads_key);

MlpKind read_plain_mlp(ConfigReader& config, std::string_view key, std::string_view fallback);
MlpKind read_gated_mlp(ConfigReader& config, std::string_view key, std::string_view fallback);
std::string activation_name(MlpKind kind, bool old_gelu = false);

/// Returns whether each layer's attention has a window, from layer_types or, in older files, from the rule `older`.
std::vector<bool> read_sliding_layers(ConfigReader& config, int layers, const std::function<bool(int layer)>& older);

/// Sets the attention rule of every layer: `windowed`, with this window, where `sliding` is true, else `full`.
void set_layer_types(const ConfigReader& config, ModelSpec& model, const std::vector<bool>& sliding, int window,
                     const AttentionRule& full, AttentionRule windowed);
/// Sets the window of the rules where `sliding` is true. Throws for such layers if `window` is 0, i.e. unset.
void set_windows(const ConfigReader& config, std::vector<AttentionRule>& rules, const std::vector<bool>& sliding,
                 int window);

/// Sets model.attention to `rules`, one per layer; leaves it empty if all are the default rule. Call it after the
/// stack's head_dim is known.
void set_attention(ModelSpec& model, std::vector<AttentionRule> rules);

// -- RoPE frequencies ------------------------------------------------------------------------------
/// Defaults and names of the keys that describe RoPE.
struct RopeDefaults {
  double theta = rope_base;  ///< 0: rope_theta is required
  int context = 0;           ///< max_position_embeddings: default of the original context length
  /// Default share of a head's features that rotate; the others have frequency 0. nullopt: all, and the key is
  /// rejected.
  std::optional<double> partial = {};
  // Names of these keys outside of rope_parameters.
  std::string_view theta_key = "rope_theta";
  std::string_view partial_key = "partial_rotary_factor";
  // Phi-3 has only the types default and longrope (also called su and yarn), and a key for the original context length.
  bool is_phi3 = false;
  std::optional<int> original_context = {};
  bool is_proportional = false;  ///< type "proportional" is allowed; other types reject partial_rotary_factor
  int head_dim = 0;              ///< 0 means the model's head_dim
};

/// Reads the attention rule that RoPE sets, from rope_parameters (files since transformers 5) or from rope_theta and
/// rope_scaling (older files). Types: default, linear (all frequencies divided by factor), llama3 (long waves divided
/// by factor, short ones unchanged, interpolated in between), yarn, longrope and, if allowed, proportional. Rejects
/// other types and contradictory settings. Sets model.rope_tokens if the rule holds for short sequences only.
AttentionRule read_rope(ConfigReader& config, ModelSpec& model, RopeDefaults defaults);

/// Like read_rope, for the object that contains rope_type and its parameters.
AttentionRule read_rope_object(ConfigReader& rope, ModelSpec& model, const RopeDefaults& defaults);

/// Rules of layers without a window (full) and with one (sliding), with RoPE only.
struct RopePair {
  AttentionRule full, sliding;
};
/// Reads rope_parameters with an object per kind of layer or, in older files, the keys of read_rope for `full`, and
/// `local_key` (if not empty) for the theta of `sliding`, by default `local_theta`.
RopePair read_ropes(ConfigReader& config, ModelSpec& model, const RopeDefaults& full, double local_theta,
                    std::string_view local_key = {});
/// Reads rope_parameters with an object per kind of layer.
RopePair read_rope_pair(ConfigReader& config, ModelSpec& model, const RopeDefaults& full, const RopeDefaults& sliding);
/// Returns the frequencies of a head in which the first floor(partial·e/2) pairs rotate by theta^(−2i/e); 0 for others.
std::vector<double> proportional_frequencies(int head_dim, double theta, double partial);

/// Returns StoredPart::order of a head's queries or keys. Features i and i + e/2 of the stack form a pair. In a
/// stored head the first 2p features rotate, with p the number of nonzero frequencies: pairs (i, i + p), or interleaved
/// (0, 1), (2, 3), ….
std::vector<std::int64_t> rope_order(const std::vector<double>& frequencies, bool interleaved);

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
  RopeDefaults rope = {.context = 2048};
};
/// Reads the keys of a Pre-LN stack with RMSNorm and a gated MLP, except RoPE. Returns the defaults of RoPE's keys.
RopeDefaults read_llama_shape(ConfigReader& config, ModelSpec& model, const LlamaDefaults& defaults);
/// Reads the keys of read_llama_shape and of RoPE. Returns the attention rule of every layer: the
/// default rule with the RoPE that was read.
std::vector<AttentionRule> read_llama_like(ConfigReader& config, ModelSpec& model, const LlamaDefaults& defaults);
/// Reads the same keys and sliding_window, whose default is `window`, and sets model.attention. Rejects biases.
void read_mistral_like(ConfigReader& config, ModelSpec& model, const LlamaDefaults& defaults,
                       std::optional<int> window);

/// Attention projections with biases; by_key means all four if attention_bias is true.
enum class AttentionBiases { by_key, qkv, none };
/// Differences between the families that name their tensors model.layers.{i}.self_attn.q_proj and so on.
struct LlamaTensors {
  AttentionBiases biases = AttentionBiases::by_key;
  bool mlp_bias = false;
  bool tied_by_default = false;  ///< see map_head
  double gain_plus = 0.0;        ///< added to stored gains: 1 if they are stored as gain − 1
  bool fused_qkv = false;        ///< queries, keys and values share self_attn.qkv_proj
  bool fused_gate_up = false;    ///< gate and up share mlp.gate_up_proj
  bool interleaved_rope = false;
  bool whole_head_rope = false;             ///< features i and i + e/2 form a pair even if only some pairs rotate
  std::vector<bool> values_from_keys = {};  ///< layers in which W_v is the tensor of W_k; empty means none
  // Names in a mixture of experts: MIXTURE.gate (the router), and MIXTURE.experts.{e}.NAME of an expert's matrices.
  std::string_view mixture = "mlp";
  std::vector<std::pair<Weight, std::string_view>> expert = {
      {Weight::gate, "gate_proj"}, {Weight::up, "up_proj"}, {Weight::down, "down_proj"}};
  // Names of the norms after "model.layers.{i}."; empty means that there is no such norm.
  std::string_view attention_a = "input_layernorm";
  std::string_view attention_b = {};
  std::string_view mlp_a = "post_attention_layernorm";
  std::string_view mlp_b = {};
};
/// V-norms have no stored gain.
void map_llama_like(ConfigReader& config, const TensorNames& names, FamilyStack& stack, const LlamaTensors& tensors);

/// Returns the keys of a config.json that all families derived from Llama have. `class_stem` is "Llama" for
/// LlamaForCausalLM.
nlohmann::ordered_json llama_like_config(const ModelSpec& model, std::string_view model_type,
                                         std::string_view class_stem, std::string_view activation_key = "hidden_act");

}  // namespace periscope
