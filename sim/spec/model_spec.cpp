#include "sim/spec/model_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/spec/stack_keys.h"
#include "sim/spec/wiring.h"

namespace periscope {
namespace {

void require(bool holds, std::string_view key, const std::string& found, std::string_view expected) {
  if (!holds) throw ConfigError(fmt::format("{} = {}: expected {}", key, found, expected));
}

/// Checks constraints between several keys of a shape.
void require_shape(const ModelSpec& m) {
  constexpr int max_width = 1 << 20;
  require(m.heads % m.kv_heads == 0, "model.kv_heads", fmt::to_string(m.kv_heads),
          fmt::format("a divisor of model.heads = {}", m.heads));
  require(!m.rope || m.head_dim % 2 == 0, "model.head_dim", fmt::to_string(m.head_dim),
          "an even number, because model.rope rotates pairs");
  require(static_cast<long>(m.heads) * m.head_dim <= max_width, "model.heads", fmt::to_string(m.heads),
          fmt::format("heads * head_dim at most {}", max_width));
  require(!subtracts_mean(m.norm) || m.width >= 2, "model.width", fmt::to_string(m.width),
          "at least 2, because LayerNorm of one feature is 0");
}

/// Throws ConfigError if two ranges set the same key of the same layer.
void require_disjoint(const LayerPlacement& range, const LayerPlacement& later) {
  const auto both_set = [&](auto field) { return (range.*field).has_value() && (later.*field).has_value(); };
  const bool overlap = range.first <= later.last && later.first <= range.last;
  if (!overlap || !(both_set(&LayerPlacement::placement) || both_set(&LayerPlacement::qk_norm) ||
                    both_set(&LayerPlacement::v_norm) || both_set(&LayerPlacement::inner_norm) ||
                    both_set(&LayerPlacement::attention_gate))) {
    return;
  }
  throw ConfigError(
      fmt::format("model.layer_placement.layers = \"{}-{}\": expected layers for which no other range sets the same "
                  "key, found \"{}-{}\"",
                  later.first, later.last, range.first, range.last));
}

/// Checks alpha and beta of a sublayer. If a layer range sets them, the error names the range's key.
void require_finite_rule(const ModelSpec& m, int sublayer) {
  try {
    require_ranges(placement_section, m.rule(sublayer));
  } catch (const ConfigError& error) {
    const int layer = ModelSpec::layer_of(sublayer);
    const auto sets = [&](const LayerPlacement& r) { return r.placement && r.first <= layer && layer <= r.last; };
    if (std::ranges::none_of(m.layer_placements, sets)) throw;
    throw ConfigError("model.layer_placement." + std::string(error.what()).substr(std::string_view("model.").size()));
  }
}

/// Checks alpha and beta of every sublayer, and the layer ranges.
void require_finite_rules(const ModelSpec& m) {
  for (int l = 0; l < m.sublayers(); ++l) require_finite_rule(m, l);
  for (const LayerPlacement& range : m.layer_placements) {
    const std::string layers = fmt::format("\"{}-{}\"", range.first, range.last);
    require(range.last < m.layers, "model.layer_placement.layers", layers,
            fmt::format("layers from 0 to {}, because model.layers = {}", m.layers - 1, m.layers));
    require(
        !range.placement || m.placement.wiring == Wiring::sequential, "model.layer_placement.layers", layers,
        fmt::format("no placement in layer ranges, because model.placement = {} defines streams or parallel branches",
                    m.placement.name));
    for (const LayerPlacement* later = &range + 1; later <= &m.layer_placements.back(); ++later) {
      require_disjoint(range, *later);
    }
  }
}

/// Checks that init.residual is finite, at least 0 at every addition, and the only factor that scales W_o and W_down.
void require_residual(const ModelSpec& m, const InitSpec& init) {
  if (init.residual == DepthExpression(1.0)) return;
  const std::string found = init.residual.number() ? fmt::format("{:g}", *init.residual.number())
                                                   : fmt::format("\"{}\"", shortened(init.residual.text()));
  const std::string alone =
      fmt::format("because init.residual = {} scales W_o and W_down; or set init.residual = 1", found);
  require(init.o_factor == 1.0, "init.o_factor", fmt::format("{:g}", init.o_factor), "1, " + alone);
  require(init.down_factor == 1.0, "init.down_factor", fmt::format("{:g}", init.down_factor), "1, " + alone);
  require(init.scheme != InitScheme::mitchell, "init.scheme", "\"mitchell\"",
          "a different scheme, because mitchell also scales W_o and W_down by depth; or set init.residual = 1");
  for (int l = 0; l < m.steps(); ++l) {
    const double value = init.residual.at(l, m.layers);
    require(value >= 0.0 && std::isfinite(value), "init.residual", found,
            fmt::format("a finite number of at least 0 at every l; at l = {} it is {:g}", l, value));
  }
}

}  // namespace

std::vector<double> rope_frequencies(int head_dim, double base) {
  std::vector<double> frequencies;
  for (int i = 0; i < head_dim / 2; ++i) frequencies.push_back(std::pow(base, -2.0 * i / head_dim));
  return frequencies;
}

int ModelSpec::steps() const { return steps_of(*this); }

Step ModelSpec::step(int index) const { return step_of(*this, index); }

StreamEnds ModelSpec::ends() const { return ends_of(*this); }

std::vector<int> ModelSpec::sublayers_sharing_input(int sublayer) const {
  std::vector<int> all;
  for (const Branch& other : step(step_with(sublayer)).branches) {
    if (other.shares_input && other.sublayer != sublayer) all.push_back(other.sublayer);
  }
  return all;
}

Branch ModelSpec::branch(int sublayer) const {
  const Step own = step(step_with(sublayer));
  return *std::ranges::find(own.branches, sublayer, &Branch::sublayer);
}

double ModelSpec::branch_scale_at(int sublayer) const {
  return branch_scale(step(step_with(sublayer)), branch(sublayer));
}

bool ModelSpec::has_norms() const {
  for (int s = 0; s < steps(); ++s) {
    const Step one = step(s);
    const auto has_norm = [](const Branch& b) { return b.norm_a || b.norm_b; };
    if (std::ranges::any_of(one.branches, has_norm) || std::ranges::count(one.norm_c, true) > 0) return true;
  }
  return false;
}

std::size_t ModelSpec::curve_length(Signal signal) const {
  return is_of_step(signal) ? depths() : static_cast<std::size_t>(sublayers());
}

SublayerRule ModelSpec::rule(int sublayer, int more_layers) const {
  const int layer = layer_of(sublayer);
  const Placement* own = &placement;
  for (const LayerPlacement& range : layer_placements) {
    if (range.placement && range.first <= layer && layer <= range.last) own = &*range.placement;
  }
  const int in_a_layer = steps() == layers ? 1 : 2;
  SublayerRule rule = own->at({.layer = layer + more_layers,
                               .layers = layers + more_layers,
                               .kind = kind_of(sublayer),
                               .addition = step_with(sublayer) + in_a_layer * more_layers});
  rule.alpha *= output_scale(sublayer);
  rule.beta *= output_scale(sublayer);
  return rule;
}

ScoreRule ModelSpec::scores_at(int layer) const {
  return attention.empty() ? ScoreRule{} : attention[static_cast<std::size_t>(layer)].scores;
}

int ModelSpec::gates_at(int layer) const {
  switch (attention_gate_at(layer)) {
    case AttentionGate::none: return 0;
    case AttentionGate::head: return heads;
    case AttentionGate::channel: return query_width(layer);
  }
  throw std::logic_error("unknown kind of gate");
}

std::vector<double> ModelSpec::rope_frequencies_at(int layer) const {
  if (!rope) return {};
  if (!attention.empty() && !attention[static_cast<std::size_t>(layer)].rope_frequencies.empty()) {
    return attention[static_cast<std::size_t>(layer)].rope_frequencies;
  }
  return rope_frequencies(head_dim_at(layer), rope_base);
}

std::vector<double> ModelSpec::rope_gains_at(int layer) const {
  const double scale = !rope || attention.empty() ? 1.0 : attention[static_cast<std::size_t>(layer)].rope_scale;
  if (scale == 1.0) return {};
  std::vector<double> gains = rope_frequencies_at(layer);
  for (double& gain : gains) gain = gain != 0.0 ? scale : 1.0;
  return gains;
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

void take_defaults(const Placement& placement, ModelSpec& model) {
  const PlacementDefaults& d = placement.defaults;
  model.final_norm = d.final_norm;
  if (d.embedding_norm) model.embedding_norm = true;
  if (d.qk_norm != QkNorm::none) model.qk_norm = d.qk_norm;
  if (d.v_norm) model.v_norm = true;
  if (d.inner_norm != InnerNorm::none) model.inner_norm = d.inner_norm;
  if (d.norm != NormKind::rms) model.norm = d.norm;
}

void validate(const StackSpec& spec) {
  require_ranges(model_section, spec.model);
  require_finite_rules(spec.model);
  require_ranges(init_section, spec.init);
  require_ranges(input_section, spec.input);
  require_shape(spec.model);
  require_residual(spec.model, spec.init);
  if (spec.input.kind == InputKind::text) {
    require(!spec.input.path.empty(), "input.path", "\"\"", "the path of a file, because input.kind = \"text\"");
    require(spec.model.vocab >= 256, "model.vocab", fmt::to_string(spec.model.vocab),
            "at least 256, because input.kind = \"text\" reads bytes");
  }
}

}  // namespace periscope
