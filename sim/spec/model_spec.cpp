#include "sim/spec/model_spec.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/base/error.h"
#include "sim/spec/stack_keys.h"

namespace periscope {
namespace {

void require(bool holds, std::string_view key, const std::string& found, std::string_view expected) {
  if (!holds) throw ConfigError(fmt::format("{} = {}: expected {}", key, found, expected));
}

/// Checks what several keys of a shape must fulfil together.
void require_shape(const ModelSpec& m) {
  constexpr int most_wide = 1 << 20;
  require(m.heads % m.kv_heads == 0, "model.kv_heads", fmt::to_string(m.kv_heads),
          fmt::format("a divisor of model.heads = {}", m.heads));
  require(!m.rope || m.head_dim % 2 == 0, "model.head_dim", fmt::to_string(m.head_dim),
          "an even number, because model.rope rotates pairs");
  require(static_cast<long>(m.heads) * m.head_dim <= most_wide, "model.heads", fmt::to_string(m.heads),
          fmt::format("heads * head_dim at most {}", most_wide));
  require(m.norm != NormKind::layer || m.width >= 2, "model.width", fmt::to_string(m.width),
          "at least 2, because LayerNorm of one feature is 0");
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
  require_ranges(model_section, spec.model);
  require_ranges(placement_section, spec.model.placement.custom);
  require_ranges(init_section, spec.init);
  require_ranges(input_section, spec.input);
  require_shape(spec.model);
  if (spec.input.kind == InputKind::text) {
    require(!spec.input.path.empty(), "input.path", "\"\"", "a file, because input.kind = \"text\"");
    require(spec.model.vocab >= 256, "model.vocab", fmt::to_string(spec.model.vocab),
            "at least 256, because input.kind = \"text\" reads bytes");
  }
}

}  // namespace periscope
