#include "sim/spec/model_spec.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/spec/error.h"

namespace periscope {
namespace {

void require(bool holds, std::string_view key, const std::string& found, std::string_view expected) {
  if (!holds) throw ConfigError(fmt::format("{} = {}: expected {}", key, found, expected));
}

void require_count(std::string_view key, int value, int most) {
  require(value >= 1 && value <= most, key, fmt::to_string(value), fmt::format("a whole number from 1 to {}", most));
}

void require_number(std::string_view key, double value, bool holds, std::string_view expected) {
  require(std::isfinite(value) && holds, key, fmt::format("{:g}", value), expected);
}

void validate_model(const ModelSpec& m) {
  constexpr int most_layers = 10'000;
  constexpr int most_wide = 1 << 20;
  require_count("model.layers", m.layers, most_layers);
  require_count("model.width", m.width, most_wide);
  require_count("model.heads", m.heads, most_wide);
  require_count("model.kv_heads", m.kv_heads, most_wide);
  require(m.heads % m.kv_heads == 0, "model.kv_heads", fmt::to_string(m.kv_heads),
          fmt::format("a divisor of model.heads = {}", m.heads));
  require_count("model.head_dim", m.head_dim, most_wide);
  require(!m.rope || m.head_dim % 2 == 0, "model.head_dim", fmt::to_string(m.head_dim),
          "an even number, because model.rope rotates pairs");
  require(static_cast<long>(m.heads) * m.head_dim <= most_wide, "model.heads", fmt::to_string(m.heads),
          fmt::format("heads * head_dim at most {}", most_wide));
  require_count("model.mlp_width", m.mlp_width, most_wide);
  require_number("model.norm_eps", m.norm_eps, m.norm_eps >= 0, "a number of at least 0");
  require_number("model.gamma", m.gamma, true, "a finite number");
  require_count("model.vocab", m.vocab, 1 << 24);
  require(m.norm != NormKind::layer || m.width >= 2, "model.width", fmt::to_string(m.width),
          "at least 2, because LayerNorm of one feature is 0");
  const SublayerRule& rule = m.placement.custom;
  require_number("model.placement.alpha", rule.alpha, true, "a finite number");
  require_number("model.placement.beta", rule.beta, true, "a finite number");
}

}  // namespace

std::vector<double> rope_frequencies(int head_dim, double base) {
  std::vector<double> frequencies;
  for (int i = 0; i < head_dim / 2; ++i) frequencies.push_back(std::pow(base, -2.0 * i / head_dim));
  return frequencies;
}

ScoreRule ModelSpec::scores_at(int layer) const {
  return attention.empty() ? ScoreRule{} : attention[static_cast<std::size_t>(layer)].scores;
}

std::vector<double> ModelSpec::rope_frequencies_at(int layer) const {
  if (!rope) return {};
  if (!attention.empty() && !attention[static_cast<std::size_t>(layer)].rope_frequencies.empty()) {
    return attention[static_cast<std::size_t>(layer)].rope_frequencies;
  }
  return rope_frequencies(head_dim, rope_base);
}

Activation activation_of(MlpKind kind) {
  switch (kind) {
    case MlpKind::relu: return Activation::relu;
    case MlpKind::gelu:
    case MlpKind::geglu: return Activation::gelu;
    case MlpKind::silu:
    case MlpKind::swiglu: return Activation::silu;
    case MlpKind::gelu_tanh:
    case MlpKind::geglu_tanh: return Activation::gelu_tanh;
  }
  throw std::logic_error("unknown MLP kind");
}

void validate(const StackSpec& spec) {
  validate_model(spec.model);
  const InitSpec& init = spec.init;
  require_number("init.std", init.std, init.std >= 0, "a number of at least 0");
  require_number("init.factor", init.factor, init.factor >= 0, "a number of at least 0");
  require_number("init.qk_factor", init.qk_factor, init.qk_factor >= 0, "a number of at least 0");
  require_number("init.down_factor", init.down_factor, init.down_factor >= 0, "a number of at least 0");
  const InputSpec& input = spec.input;
  require_count("input.tokens", input.tokens, 1 << 20);
  require_number("input.second_moment", input.second_moment, input.second_moment > 0, "a number greater than 0");
  require_number("input.correlation", input.correlation, input.correlation >= 0 && input.correlation <= 1,
                 "a number from 0 to 1");
  if (input.kind == InputKind::text) {
    require(!input.path.empty(), "input.path", "\"\"", "a file, because input.kind = \"text\"");
    require(spec.model.vocab >= 256, "model.vocab", fmt::to_string(spec.model.vocab),
            "at least 256, because input.kind = \"text\" reads bytes");
  }
}

}  // namespace periscope
