#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

constexpr std::string_view harmless_keys[] = {
    // identity and provenance
    "_name_or_path", "name_or_path", "_commit_hash", "architectures", "model_type", "transformers_version", "dtype",
    "torch_dtype", "_pre_quantization_dtype", "tokenizer_class", "tokenizer_name", "finetuning_task", "is_decoder",
    "task_specific_params", "id2label", "label2id", "num_labels", "_num_labels", "problem_type",
    "transformers.js_config", "auto_map", "_use_default_values",
    // special tokens, padding, truncation of text
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "mask_token_id", "unk_token_id",
    "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id", "add_bos_token", "add_eos_token",
    "padding_side", "tokenizer_padding_side", "tokenizer_model_max_length",
    // training: initialisation, dropout, noise, memory
    "initializer_range", "initializer_factor", "init_std", "attention_dropout", "hidden_dropout", "dropout",
    "activation_dropout", "layerdrop", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout",
    "embd_pdrop", "attn_pdrop", "resid_pdrop", "neftune_noise_alpha", "gradient_checkpointing",
    "use_reentrant_checkpointing", "use_bfloat16", "tf_legacy_loss",
    // implementation of the same function
    "use_cache", "cache_implementation", "attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
    "_attn_implementation_internal", "_flash_attn_2_enabled", "use_flash_attention", "use_flash_attn",
    "flash_attention", "torchscript", "pretraining_tp", "chunk_size_feed_forward", "output_past", "xla_device",
    // choice of outputs
    "output_attentions", "output_hidden_states", "output_scores", "return_dict", "return_dict_in_generate",
    "tie_last_hidden_states",
    // generation
    "temperature", "top_k", "top_p", "typical_p", "do_sample", "max_length", "min_length", "max_new_tokens",
    "num_beams", "num_beam_groups", "num_return_sequences", "early_stopping", "repetition_penalty", "length_penalty",
    "diversity_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "suppress_tokens",
    "begin_suppress_tokens", "remove_invalid_values", "exponential_decay_length_penalty", "prefix",
    // limits without effect on parameter shapes (unless they scale RoPE)
    "max_position_embeddings", "n_ctx", "max_sequence_length", "max_seq_len", "max_seq_length", "seq_length",
    "model_max_length",
    // heads for other tasks
    "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"};

/// Keys that vendors add and that the public implementations of these families do not read. Only the listed values
/// are accepted; other values describe functions that these implementations do not compute.
constexpr std::array inert_keys{
    InertKey{.key = "unsloth_*"},
    InertKey{.key = "is_llama_config", .values = "[true]"},
    InertKey{.key = "rope_interleaved", .values = "[false]"},
    InertKey{.key = "use_mrope", .values = "[false]"},
    InertKey{.key = "use_sliding_window", .values = "[false]"},
    InertKey{.key = "sliding_window_size", .same_as = "sliding_window"},
    InertKey{.key = "use_bidirectional_attention", .values = "[false]"},
    InertKey{.key = "attention_bias", .values = "[false]"},
    InertKey{.key = "mlp_bias", .values = "[false]"},
    InertKey{.key = "qk_layer_norms", .values = "[false]"},
    InertKey{.key = "loss_type", .values = R"(["ForCausalLM", "ForMaskedLM"])"},
};

struct ActivationName {
  std::string_view name;
  std::optional<MlpKind> plain, gated;
};
/// Exact GELU, its tanh approximation (gelu_fast rounds √(2/π) to 10 digits) and SiLU have several names.
constexpr std::array activations{
    ActivationName{"relu", MlpKind::relu, std::nullopt},
    ActivationName{"silu", MlpKind::silu, MlpKind::swiglu},
    ActivationName{"swish", MlpKind::silu, MlpKind::swiglu},
    ActivationName{"gelu", MlpKind::gelu, MlpKind::geglu},
    ActivationName{"gelu_python", MlpKind::gelu, MlpKind::geglu},
    ActivationName{"gelu_pytorch_tanh", MlpKind::gelu_tanh, MlpKind::geglu_tanh},
    ActivationName{"gelu_new", MlpKind::gelu_tanh, MlpKind::geglu_tanh},
    ActivationName{"gelu_fast", MlpKind::gelu_tanh, MlpKind::geglu_tanh},
    ActivationName{"gelu_accurate", MlpKind::gelu_tanh, MlpKind::geglu_tanh},
};

MlpKind read_activation(ConfigReader& config, std::string_view key, std::string_view fallback,
                        std::optional<MlpKind> ActivationName::*form) {
  const std::string name = config.text_or(key, fallback);
  std::vector<std::string_view> known;
  for (const ActivationName& row : activations) {
    if (!(row.*form)) continue;
    if (row.name == name) return *(row.*form);
    known.push_back(row.name);
  }
  throw config.unsupported_value(key, fmt::format("one of {}", fmt::join(known, ", ")));
}

}  // namespace

void skip_harmless_keys(ConfigReader& config, bool causal) {
  config.harmless(harmless_keys);
  config.inert(inert_keys);
  if (causal) config.must_be("is_causal", true);
  config.must_be("is_encoder_decoder", false);
  config.must_be("add_cross_attention", false);
  config.must_be("tie_encoder_decoder", false);
  config.must_be("pruned_heads", nlohmann::json::object());
}

bool is_headless(ConfigReader& config) {
  if (!config.has("architectures")) return false;
  const std::vector<std::string> all = config.texts("architectures");
  return !all.empty() && all.front().ends_with("Model");
}

int read_layers(ConfigReader& config, std::string_view key, std::optional<int> fallback) {
  const int layers = fallback ? config.integer_or(key, *fallback, max_layers) : config.integer(key, max_layers);
  const std::uint64_t tensors = config.counts().tensors;
  if (config.has(key) && static_cast<std::uint64_t>(layers) > tensors) {
    throw config.malformed_value(key, fmt::format("at most {}, the number of tensors in the files", tensors));
  }
  return layers;
}

void read_sizes(ConfigReader& config, ModelSpec& m) {
  m.width = config.integer("hidden_size", max_width);
  m.layers = read_layers(config, "num_hidden_layers");
  m.heads = config.integer("num_attention_heads", max_width);
  m.mlp_width = config.integer("intermediate_size", max_width);
  m.vocab = config.integer("vocab_size", max_tokens);
}

void read_kv_heads(ConfigReader& config, ModelSpec& m, int fallback, bool null, std::string_view key) {
  const int absent = fallback > 0 ? fallback : m.heads;
  m.kv_heads = null ? config.integer_or_none(key, absent, max_width).value_or(m.heads)
                    : config.integer_or(key, absent, max_width);
  if (m.heads % m.kv_heads != 0) {
    throw config.malformed_value(key, fmt::format("a divisor of num_attention_heads = {}", m.heads));
  }
}

int divided_head_dim(const ConfigReader& config, const ModelSpec& m, std::string_view width_key,
                     std::string_view heads_key) {
  if (m.width % m.heads != 0) {
    throw config.malformed_value(heads_key, fmt::format("a divisor of {} = {}", width_key, m.width));
  }
  return m.width / m.heads;
}

void read_head_dim(ConfigReader& config, ModelSpec& m, int fallback, std::string_view key) {
  if (config.is_given(key) || fallback > 0) {
    m.head_dim = config.integer_or(key, fallback, max_width);
  } else {
    config.must_be(key, nullptr);
    m.head_dim = divided_head_dim(config, m, "hidden_size", "num_attention_heads");
  }
  if (m.head_dim % 2 != 0) throw config.malformed_value(key, "an even number, because RoPE rotates pairs");
  if (static_cast<std::int64_t>(m.heads) * m.head_dim > max_width) {
    throw config.malformed_value(key, fmt::format("at most {} for all heads together", max_width));
  }
  const std::uint64_t numbers = config.counts().numbers;
  if (static_cast<std::uint64_t>(m.layers) * static_cast<std::uint64_t>(m.head_dim) > numbers) {
    throw config.malformed_value(key, fmt::format("at most {}, as the files have {} values for {} layers",
                                                  numbers / m.layers, numbers, m.layers));
  }
}

MlpKind read_plain_mlp(ConfigReader& config, std::string_view key, std::string_view fallback) {
  return read_activation(config, key, fallback, &ActivationName::plain);
}

MlpKind read_gated_mlp(ConfigReader& config, std::string_view key, std::string_view fallback) {
  return read_activation(config, key, fallback, &ActivationName::gated);
}

std::string activation_name(MlpKind kind, bool old_gelu) {
  if (activation_of(kind) == Activation::gelu_tanh) return old_gelu ? "gelu_new" : "gelu_pytorch_tanh";
  for (const ActivationName& row : activations) {
    if (row.plain == kind || row.gated == kind) return std::string(row.name);
  }
  throw std::logic_error("unknown MLP kind");
}

std::vector<bool> read_sliding_layers(ConfigReader& config, int layers, const std::function<bool(int)>& older) {
  std::vector<bool> sliding;
  if (!config.has("layer_types")) {
    config.must_be("layer_types", nullptr);
    for (int layer = 0; layer < layers; ++layer) sliding.push_back(older(layer));
    return sliding;
  }
  for (const std::string& type : config.texts("layer_types")) {
    if (type != "sliding_attention" && type != "full_attention") {
      throw config.unsupported_value("layer_types", "sliding_attention and full_attention");
    }
    sliding.push_back(type == "sliding_attention");
  }
  if (std::ssize(sliding) != layers) {
    throw config.malformed_value("layer_types", fmt::format("a list of num_hidden_layers = {} entries", layers));
  }
  return sliding;
}

void set_layer_types(const ConfigReader& config, ModelSpec& m, const std::vector<bool>& sliding, int window,
                     const AttentionRule& full, AttentionRule windowed) {
  windowed.scores.window = window;
  std::vector<AttentionRule> rules;
  for (const bool slides : sliding) {
    if (slides && window == 0)
      throw config.unsupported_value("sliding_window", "a number, because some layers have a window");
    rules.push_back(slides ? windowed : full);
  }
  set_attention(m, std::move(rules));
}

void set_windows(const ConfigReader& config, std::vector<AttentionRule>& rules, const std::vector<bool>& sliding,
                 int window) {
  for (std::size_t layer = 0; layer < rules.size(); ++layer) {
    if (!sliding[layer]) continue;
    if (window == 0) {
      throw config.unsupported_value("layer_types",
                                     "no sliding_attention, because use_sliding_window or sliding_window is unset");
    }
    rules[layer].scores.window = window;
  }
}

void set_attention(ModelSpec& m, std::vector<AttentionRule> rules) {
  for (AttentionRule& rule : rules) {
    const int head_dim = rule.head_dim > 0 ? rule.head_dim : m.head_dim;
    if (rule.rope_frequencies == rope_frequencies(head_dim, rope_base)) rule.rope_frequencies.clear();
  }
  if (std::ranges::count(rules, AttentionRule{}) < std::ssize(rules)) m.attention = std::move(rules);
}

void map_head(ConfigReader& config, const TensorNames& names, FamilyStack& stack, bool tied_by_default,
              const std::string& embedding, const std::string& head) {
  const bool is_set = config.has("tie_word_embeddings");
  stack.tied = config.flag_or("tie_word_embeddings", tied_by_default);
  if (!stack.tied && !names.contains(head)) {
    if (is_headless(config)) {
      stack.model.unembedding = false;
      stack.warnings.push_back("no " + head + ", and config.json does not tie the embedding: the stack has no logits");
      return;
    }
    if (!is_set) {
      stack.tied = true;
      stack.warnings.push_back("no " + head + ", and config.json has no tie_word_embeddings: assumed tied");
    }
  }
  if (!stack.tied && names.contains(head) && names.stored(head) == names.stored(embedding)) {
    stack.tied = true;
    stack.warnings.push_back(head + " is an alias of the embedding in the file's metadata: assumed tied");
  }
  // Some programs store only one of the tensors that share memory, possibly the head.
  const std::string& table = stack.tied && (names.contains(embedding) || !names.contains(head)) ? embedding : head;
  if (stack.tied) {
    if (table != head) stack.copies.emplace_back(head, embedding);
    stack.map.set(0, Weight::embedding, whole(table));
  }
  stack.map.set(0, Weight::unembedding, whole(table));
}

StoredPart whole(std::string tensor, double plus) { return {.tensor = std::move(tensor), .plus = plus}; }

void map_linear(ParameterMap& map, int layer, Weight matrix, const std::string& name, bool bias) {
  map.set(layer, matrix, whole(name + ".weight"));
  if (bias) map.set_bias(layer, matrix, whole(name + ".bias"));
}

StoredNorm layer_norm(const std::string& name) { return {whole(name + ".weight"), whole(name + ".bias")}; }

std::string architecture_for(const ModelSpec& m, std::string_view with_head, std::string_view without) {
  return std::string(m.unembedding ? with_head : without);
}

}  // namespace periscope
