#include <fmt/format.h>

#include "sim/checkpoint/families/families.h"

/// Mixtures of experts, stored with one tensor per matrix of an expert.
namespace periscope {
namespace {

/// Reads the keys of the experts. transformers 5 knows their number as num_experts and as num_local_experts in all
/// families; `key` is the family's own name.
ExpertSpec read_experts(ConfigReader& config, int layers, std::string_view key, const ExpertSpec& defaults) {
  const std::string_view other = key == "num_experts" ? "num_local_experts" : "num_experts";
  const auto read = [&](std::string_view name) { return config.integer_or(name, defaults.count, max_width); };
  const std::string_view given = config.has(key) || !config.has(other) ? key : other;
  ExpertSpec experts{.count = read(given), .normalised = true};
  if (config.has(other) && read(other) != experts.count) {
    throw config.unsupported_value(other, fmt::format("the same as {}", key));
  }
  const std::uint64_t most = config.counts().tensors / static_cast<std::uint64_t>(layers);
  if (static_cast<std::uint64_t>(experts.count) > most) {
    throw config.malformed_value(given, fmt::format("at most {}, the number of tensors per layer in the files", most));
  }
  experts.per_token = config.integer_or("num_experts_per_tok", defaults.per_token, experts.count);
  // The loss and the noise that only training applies, and a choice of outputs.
  config.harmless({"router_aux_loss_coef", "router_jitter_noise", "output_router_logits"});
  return experts;
}

/// Mixtral: Mistral with a mixture of experts in every layer.
FamilyStack read_mixtral(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  const LlamaDefaults defaults{
      .kv_heads = 8, .null_kv_heads = false, .norm_eps = 1e-5, .rope = {.theta = 1e6, .context = 131072}};
  read_mistral_like(config, m, defaults, std::nullopt);
  m.experts = read_experts(config, m.layers, "num_local_experts", {.count = 8, .per_token = 2});
  map_llama_like(config, names, stack,
                 {.biases = AttentionBiases::none,
                  .mixture = "block_sparse_moe",
                  .expert = {{Weight::gate, "w1"}, {Weight::up, "w3"}, {Weight::down, "w2"}}});
  return stack;
}

/// Qwen3-MoE: Qwen 3 with a mixture of experts in every layer, and an attention window in all layers or none.
FamilyStack read_qwen3_moe(ConfigReader& config, const TensorNames& names) {
  FamilyStack stack;
  ModelSpec& m = stack.model;
  std::vector<AttentionRule> rules =
      read_llama_like(config, m, {.kv_heads = 4, .null_kv_heads = false, .rope = {.context = 32768}});
  const int window = config.integer_or_none("sliding_window", 4096, max_tokens).value_or(0);
  const bool windows = config.flag_or("use_sliding_window", false);
  for (AttentionRule& rule : rules) rule.scores.window = windows ? window : 0;
  set_attention(m, std::move(rules));
  config.must_be("layer_types", nullptr);
  config.harmless({"max_window_layers"});
  m.qk_norm = QkNorm::head;
  m.experts = read_experts(config, m.layers, "num_experts", {.count = 128, .per_token = 8});
  m.experts.normalised = config.flag_or("norm_topk_prob", false);
  m.mlp_width = config.integer_or("moe_intermediate_size", 768, max_width);
  if (config.integer_or("decoder_sparse_step", 1, max_layers) != 1) {
    throw config.unsupported_value("decoder_sparse_step", "1, because layers without experts are unsupported");
  }
  if (const nlohmann::json* dense = config.find("mlp_only_layers"); dense != nullptr && !dense->empty()) {
    throw config.unsupported_value("mlp_only_layers", "[], because layers without experts are unsupported");
  }
  map_llama_like(config, names, stack, {});
  return stack;
}

}  // namespace

Family mixtral_family() {
  return {.name = "mixtral",
          .architectures = {"MixtralForCausalLM", "MixtralModel"},
          .has_experts = true,
          .read = read_mixtral,
          .write = nullptr};
}

Family qwen3_moe_family() {
  return {.name = "qwen3_moe",
          .architectures = {"Qwen3MoeForCausalLM", "Qwen3MoeModel"},
          .has_experts = true,
          .read = read_qwen3_moe,
          .write = nullptr};
}

}  // namespace periscope
