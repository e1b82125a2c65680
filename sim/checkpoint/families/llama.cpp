#include <fmt/format.h>

#include <algorithm>

#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/file_error.h"
#include "sim/model/parameters.h"

namespace periscope {
namespace {

FamilyStack read_llama(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  config.null_is_absent("head_dim");
  set_attention(stack.model, read_llama_like(config, stack.model, {}));
  map_llama_like(config, names, stack, {.mlp_bias = config.flag_or("mlp_bias", false)});
  return stack;
}

nlohmann::ordered_json write_llama(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "llama", "Llama");
  json["mlp_bias"] = false;
  return json;
}

FamilyStack read_mistral(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  read_mistral_like(config, stack.model, {.kv_heads = 8, .null_kv_heads = false, .rope = {.context = 131072}}, 4096);
  map_llama_like(config, names, stack, {.biases = AttentionBiases::none});
  return stack;
}

nlohmann::ordered_json write_mistral(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "mistral", "Mistral");
  json["sliding_window"] = nullptr;
  json.erase("attention_bias");
  return json;
}

/// Reads the attention window of Qwen 2 and 3. If use_sliding_window is true, layers ≥ max_window_layers have one.
void read_windows(ConfigReader& config, ModelSpec& m, std::vector<AttentionRule> rules) {
  const bool windows = config.flag_or("use_sliding_window", false);
  const int window = config.integer_or_none("sliding_window", 4096, max_tokens).value_or(0);
  const int first = config.integer_or("max_window_layers", 28, max_layers, 0);
  const bool usable = windows && window > 0;
  const auto from_first = [&](int layer) { return usable && layer >= first; };
  const std::vector<bool> sliding = read_sliding_layers(config, m.layers, from_first);
  set_windows(config, rules, sliding, usable ? window : 0);
  set_attention(m, std::move(rules));
}

/// Qwen 2: Llama with biases on W_q, W_k and W_v, but not on W_o.
FamilyStack read_qwen2(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  read_windows(config, stack.model, read_llama_like(config, stack.model, {.kv_heads = 32, .rope = {.context = 32768}}));
  map_llama_like(config, names, stack, {.biases = AttentionBiases::qkv});
  return stack;
}

nlohmann::ordered_json write_qwen2(const ModelSpec& m) {
  nlohmann::ordered_json json = llama_like_config(m, "qwen2", "Qwen2");
  json.erase("attention_bias");
  return json;
}

/// Qwen 3: Llama with a QK-norm per head.
FamilyStack read_qwen3(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  const LlamaDefaults defaults{.kv_heads = 32, .head_dim = 128, .rope = {.context = 32768}};
  read_windows(config, stack.model, read_llama_like(config, stack.model, defaults));
  stack.model.qk_norm = QkNorm::head;
  map_llama_like(config, names, stack, {});
  return stack;
}

}  // namespace

RopeDefaults read_llama_shape(ConfigReader& config, ModelSpec& m, const LlamaDefaults& defaults) {
  skip_harmless_keys(config);
  m.placement = *find_placement("pre");
  read_sizes(config, m);
  read_kv_heads(config, m, defaults.kv_heads, defaults.null_kv_heads);
  read_head_dim(config, m, defaults.head_dim);
  m.mlp = read_gated_mlp(config, "hidden_act", "silu");
  const std::string_view mlp = mlp_kind_names[static_cast<std::size_t>(m.mlp)];
  // Falcon 3 has this key, but no implementation reads it.
  if (config.has("activation") && config.text("activation") != mlp) {
    throw config.unsupported_value("activation", in_quotes(mlp) + ", the gated MLP of hidden_act");
  }
  m.norm_eps = config.positive_or("rms_norm_eps", defaults.norm_eps);
  RopeDefaults rope = defaults.rope;
  rope.context = config.integer_or("max_position_embeddings", rope.context, max_tokens);
  return rope;
}

std::vector<AttentionRule> read_llama_like(ConfigReader& config, ModelSpec& m, const LlamaDefaults& defaults) {
  const RopeDefaults rope = read_llama_shape(config, m, defaults);
  return std::vector<AttentionRule>(static_cast<std::size_t>(m.layers), read_rope(config, m, rope));
}

void read_mistral_like(ConfigReader& config, ModelSpec& m, const LlamaDefaults& defaults, std::optional<int> window) {
  config.null_is_absent("head_dim");
  std::vector<AttentionRule> rules = read_llama_like(config, m, defaults);
  const int limit = config.integer_or_none("sliding_window", window, max_tokens).value_or(0);
  for (AttentionRule& rule : rules) rule.scores.window = limit;
  set_attention(m, std::move(rules));
  config.must_be("attention_bias", false);
  config.must_be("mlp_bias", false);
  config.must_be("layer_types", nullptr);
}

void map_llama_like(ConfigReader& config, const TensorNames& names, FamilyStack& stack, const LlamaTensors& t) {
  const std::string embedding = "model.embed_tokens.weight";
  const ModelSpec& m = stack.model;
  ParameterMap& map = stack.map;
  const bool all_biases = t.biases == AttentionBiases::by_key && config.flag_or("attention_bias", false);
  const bool qkv_biases = all_biases || t.biases == AttentionBiases::qkv;
  const auto norm = [&](const std::string& name) { return StoredNorm{whole(name + ".weight", t.gain_plus), {}}; };
  map.set(0, Weight::embedding, whole(embedding));
  map.set_norm(0, Weight::final_norm, norm("model.norm"));
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string stem = fmt::format("model.layers.{}.", layer);
    const auto linear = [&](Weight matrix, const std::string& name, bool bias) {
      map_linear(map, layer, matrix, stem + name, bias);
    };
    const auto norm_at = [&](int sublayer, Weight weight, std::string_view name) {
      if (!name.empty()) map.set_norm(sublayer, weight, norm(stem + std::string(name)));
    };
    const auto part = [&](Weight matrix, const std::string& name, bool bias, std::int64_t first,
                          std::vector<std::int64_t> order = {}) {
      StoredPart stored{.tensor = stem + name + ".weight", .first = first, .order = std::move(order)};
      stored.stride = std::ssize(stored.order);
      map.set(layer, matrix, stored);
      stored.tensor = stem + name + ".bias";
      if (bias) map.set_bias(layer, matrix, stored);
    };
    std::vector<std::int64_t> order = rope_order(m.rope_frequencies_at(layer), t.interleaved_rope);
    if (t.whole_head_rope || std::ranges::is_sorted(order)) order.clear();
    const std::int64_t keys = t.fused_qkv ? m.query_width(layer) : 0;
    const bool from_keys = !t.values_from_keys.empty() && t.values_from_keys[static_cast<std::size_t>(layer)];
    const std::string values = from_keys ? "self_attn.k_proj" : "self_attn.v_proj";
    part(Weight::q, t.fused_qkv ? "self_attn.qkv_proj" : "self_attn.q_proj", qkv_biases, 0, order);
    part(Weight::k, t.fused_qkv ? "self_attn.qkv_proj" : "self_attn.k_proj", qkv_biases, keys, order);
    part(Weight::v, t.fused_qkv ? "self_attn.qkv_proj" : values, qkv_biases,
         t.fused_qkv ? keys + m.key_width(layer) : 0);
    linear(Weight::o, "self_attn.o_proj", all_biases);
    if (m.experts.count > 0) {
      linear(Weight::router, std::string(t.mixture) + ".gate", false);
      for (const auto& [matrix, name] : t.expert) {
        for (const int expert : experts_of(m, matrix)) {
          map.set(layer, matrix, whole(fmt::format("{}{}.experts.{}.{}.weight", stem, t.mixture, expert, name)),
                  expert);
        }
      }
    } else {
      part(Weight::gate, t.fused_gate_up ? "mlp.gate_up_proj" : "mlp.gate_proj", t.mlp_bias, 0);
      part(Weight::up, t.fused_gate_up ? "mlp.gate_up_proj" : "mlp.up_proj", t.mlp_bias,
           t.fused_gate_up ? m.mlp_width : 0);
      linear(Weight::down, "mlp.down_proj", t.mlp_bias);
    }
    norm_at(2 * layer, Weight::norm_a, t.attention_a);
    norm_at(2 * layer, Weight::norm_b, t.attention_b);
    norm_at(2 * layer + 1, Weight::norm_a, t.mlp_a);
    norm_at(2 * layer + 1, Weight::norm_b, t.mlp_b);
    if (m.v_norm) map.set_norm(2 * layer, Weight::v_norm, {});
    if (m.qk_norm == QkNorm::none) continue;
    norm_at(2 * layer, Weight::q_norm, "self_attn.q_norm");
    norm_at(2 * layer, Weight::k_norm, "self_attn.k_norm");
  }
  map_head(config, names, stack, t.tied_by_default, embedding);
}

nlohmann::ordered_json llama_like_config(const ModelSpec& m, std::string_view model_type, std::string_view class_stem,
                                         std::string_view activation_key) {
  const std::string stem(class_stem);
  return {{"architectures", {architecture_for(m, stem + "ForCausalLM", stem + "Model")}},
          {"model_type", model_type},
          {"dtype", "float32"},
          {"vocab_size", m.vocab},
          {"hidden_size", m.width},
          {"intermediate_size", m.mlp_width},
          {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads},
          {"num_key_value_heads", m.kv_heads},
          {"head_dim", m.head_dim},
          {"rms_norm_eps", m.norm_eps},
          {"max_position_embeddings", 1 << 20},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", rope_base}}},
          {"attention_bias", false},
          {"tie_word_embeddings", false},
          {activation_key, activation_name(m.mlp)}};
}

Family llama_family() {
  return {.name = "llama",
          .architectures = {"LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"},
          .read = read_llama,
          .write = write_llama};
}

Family mistral_family() {
  return {.name = "mistral",
          .architectures = {"MistralForCausalLM", "MistralModel"},
          .read = read_mistral,
          .write = write_mistral};
}

Family qwen2_family() {
  return {
      .name = "qwen2", .architectures = {"Qwen2ForCausalLM", "Qwen2Model"}, .read = read_qwen2, .write = write_qwen2};
}

Family qwen3_family() {
  return {.name = "qwen3",
          .architectures = {"Qwen3ForCausalLM", "Qwen3Model"},
          .read = read_qwen3,
          .write = [](const ModelSpec& m) { return llama_like_config(m, "qwen3", "Qwen3"); }};
}

}  // namespace periscope
