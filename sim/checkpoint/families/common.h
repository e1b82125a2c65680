#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/checkpoint/family.h"

/// What several families' config.json and tensors have in common.
namespace periscope {

inline constexpr int most_wide = 1 << 20;
inline constexpr int most_layers = 10'000;
inline constexpr int most_tokens = 1 << 24;

/// Keys of any config.json that say nothing about the function that is computed without dropout: identifiers,
/// initialisation, dropout, generation, labels, limits.
void skip_harmless_keys(ConfigReader& config);

/// The class that wrote the checkpoint, such as "LlamaForCausalLM"; empty if the file does not say.
std::string first_architecture(ConfigReader& config);

/// hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, vocab_size.
void read_sizes(ConfigReader& config, ModelSpec& model);

/// num_key_value_heads, which divides the heads; absent: `fallback`, or the heads if that is 0; null: the heads.
void read_kv_heads(ConfigReader& config, ModelSpec& model, int fallback = 0);

/// head_dim; absent: `fallback`, or the width over the heads if that is 0. RoPE wants it even.
void read_head_dim(ConfigReader& config, ModelSpec& model, int fallback = 0);
/// Width over heads, for the families that have no key for it.
int divided_head_dim(const ConfigReader& config, const ModelSpec& model, std::string_view width_key,
                     std::string_view heads_key);

/// The activation under `key`, as an MLP without or with a gate.
MlpKind read_plain_mlp(ConfigReader& config, std::string_view key, std::string_view fallback);
MlpKind read_gated_mlp(ConfigReader& config, std::string_view key, std::string_view fallback);
/// The name that activation_function and the like give to an MLP's activation.
std::string activation_name(MlpKind kind, bool old_gelu = false);

/// What layer `i` does to its scores: layer_types, or the rule of older files.
std::vector<bool> read_sliding_layers(ConfigReader& config, int layers, bool (*older)(int layer, int parameter),
                                      int parameter);

/// Leaves model.attention empty where `rules` say no more than the plain rule.
void set_attention(ModelSpec& model, std::vector<AttentionRule> rules);

/// tie_word_embeddings: the unembedding is `embedding`, or `head`. A checkpoint of a model without head has neither.
void map_head(ConfigReader& config, const TensorNames& names, FamilyStack& stack, bool tied_by_default,
              const std::string& embedding, const std::string& head = "lm_head.weight");

/// A vector or matrix that is a tensor of its own.
StoredPart whole(std::string tensor, double plus = 0.0);

/// `with_head` or, for a stack without logits, `without`.
std::string architecture_for(const ModelSpec& model, std::string_view with_head, std::string_view without);

/// Positions that a written checkpoint has if the stack has no learned ones yet.
inline constexpr int default_positions = 1024;

}  // namespace periscope
