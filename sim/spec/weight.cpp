#include "sim/spec/weight.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "sim/spec/weight_scales.h"

namespace periscope {
namespace {

/// Returns the initial standard deviation of a table. An embedding table that alone forms the stack's input, without a
/// scale, follows input.second_moment.
double table_stddev(const StackSpec& spec, Weight weight) {
  const EmbeddingSpec& e = spec.model.embedding;
  const InitSpec& init = spec.init;
  const bool is_input = e.scale == 1.0 && e.positions == 0 && e.token_types == 0;
  if (is_input || !init.embedding_std) return std::sqrt(spec.input.second_moment);
  const bool has_own = weight == Weight::positions && init.position_std;
  return (has_own ? *init.position_std : *init.embedding_std) * truncation_factor(init);
}

bool writes_to_stream(Weight weight) { return weight == Weight::o || weight == Weight::down; }

/// Returns the standard deviation that init.scheme gives to a matrix, or to a table drawn like one.
double scheme_stddev(const StackSpec& spec, int layer, Weight weight) {
  const auto [fan_out, fan_in] = shape_of(spec.model, weight, layer);
  const InitSpec& init = spec.init;
  double std = 0.0;
  switch (init.scheme) {
    case InitScheme::normal: std = init.std; break;
    case InitScheme::lecun: std = std::sqrt(1.0 / fan_in); break;
    case InitScheme::he: std = std::sqrt(2.0 / fan_in); break;
    case InitScheme::xavier: std = std::sqrt(2.0 / (fan_in + fan_out)); break;
    case InitScheme::scaled: std = std::sqrt(init.factor / fan_in); break;
    case InitScheme::mitchell:
      std = std::sqrt(1.0 / fan_in) / (writes_to_stream(weight) ? std::sqrt(2.0 * (layer + 1)) : 1.0);
      break;
  }
  return std * truncation_factor(init);
}

/// Returns the initial standard deviation of a matrix that is not a table.
double initial_stddev(const StackSpec& spec, int layer, Weight weight) {
  const InitSpec& init = spec.init;
  if (weight == Weight::unembedding && init.head_std) return *init.head_std * truncation_factor(init);
  double std = scheme_stddev(spec, layer, weight);
  if (weight == Weight::q || weight == Weight::k) return std * init.qk_factor;
  if (weight == Weight::o) std *= init.o_factor;
  if (weight == Weight::down) std *= init.down_factor;
  if (writes_to_stream(weight)) {
    std *= init.residual.at(spec.model.step_with(matrix_id(layer, weight).sublayer), spec.model.layers);
  }
  const bool branch = weight == Weight::v || weight == Weight::o || weight == Weight::up || weight == Weight::down;
  const auto gain = spec.model.placement.branch_init_gain;
  return branch && gain != nullptr ? std * gain(spec.model.layers) : std;
}

template <class Map>
const auto& scale_in(const Map& map, const ParameterId& id) {
  const auto it = map.find(id);
  if (it == map.end()) {
    throw std::logic_error(fmt::format("missing scale of {} in sublayer {}", name_of(id.weight), id.sublayer));
  }
  return it->second;
}

}  // namespace

double truncation_factor(const InitSpec& init) {
  const double c = init.truncation > 0.0 ? init.truncation : init.scheme == InitScheme::mitchell ? 3.0 : 0.0;
  if (c == 0.0) return 1.0;
  const double density = std::exp(-0.5 * c * c) / std::sqrt(2.0 * std::numbers::pi);
  return std::sqrt(1.0 - 2.0 * (c * density) / std::erf(c / std::numbers::sqrt2));
}

WeightShape shape_of(const ModelSpec& m, Weight weight, int layer) {
  switch (weight) {
    case Weight::q: return {m.query_width(layer), m.width};
    case Weight::k:
    case Weight::v: return {m.key_width(layer), m.width};
    case Weight::o: return {m.width, m.query_width(layer)};
    case Weight::gate:
    case Weight::up: return {m.mlp_width, m.width};
    case Weight::down: return {m.width, m.mlp_width};
    case Weight::embedding:
    case Weight::unembedding: return {m.vocab, m.embedding_width()};
    case Weight::positions: return {m.embedding.positions, m.width};
    case Weight::token_types: return {m.embedding.token_types, m.width};
    case Weight::project_in: return {m.width, m.embedding_width()};
    case Weight::project_out: return {m.embedding_width(), m.width};
    case Weight::head_dense: return {m.embedding_width(), m.embedding_width()};
    case Weight::attention_gate: return {m.gates_at(layer), m.width};
    case Weight::router: return {m.experts.count, m.width};
    default: throw std::logic_error(std::string(name_of(weight)) + " is not a matrix");
  }
}

int norm_width(const ModelSpec& m, Weight norm, int sublayer) {
  const int layer = ModelSpec::layer_of(sublayer);
  const bool full = m.qk_norm_at(layer) == QkNorm::full;
  switch (norm) {
    case Weight::q_norm: return full ? m.query_width(layer) : m.head_dim_at(layer);
    case Weight::k_norm: return full ? m.key_width(layer) : m.head_dim_at(layer);
    case Weight::v_norm: return m.head_dim_at(layer);
    case Weight::inner_norm: return ModelSpec::is_attention(sublayer) ? m.query_width(layer) : m.mlp_width;
    case Weight::head_norm: return m.embedding_width();
    default: return m.width;
  }
}

int vector_length(const ModelSpec& m, const ParameterId& id) {
  return id.part == ParameterId::Part::alpha ? 1 : norm_width(m, id.weight, id.sublayer);
}

double stddev_of(const StackSpec& spec, int layer, Weight weight) {
  if (spec.scales != nullptr) return scale_in(spec.scales->stddev, matrix_id(layer, weight));
  return is_table(weight) ? table_stddev(spec, weight) : initial_stddev(spec, layer, weight);
}

double drawn_embedding_stddev(const StackSpec& spec) {
  const InitSpec& init = spec.init;
  return init.embedding_std ? *init.embedding_std * truncation_factor(init) : scheme_stddev(spec, 0, Weight::embedding);
}

double bias_stddev_of(const StackSpec& spec, const ParameterId& of) {
  if (spec.scales == nullptr) return 0.0;
  const auto it = spec.scales->stddev.find(bias_of(of));
  return it == spec.scales->stddev.end() ? 0.0 : it->second;
}

std::vector<double> gain_of(const StackSpec& spec, int sublayer, Weight norm) {
  const auto width = static_cast<std::size_t>(norm_width(spec.model, norm, sublayer));
  if (spec.scales == nullptr) {
    const double gain = norm == Weight::branch_scale ? spec.model.layer_scale : spec.model.gamma;
    return std::vector<double>(width, is_module_norm(norm) ? 1.0 : gain);
  }
  const std::vector<double>& gain = scale_in(spec.scales->gains, gain_id(sublayer, norm));
  if (gain.size() != width) {
    throw std::logic_error(
        fmt::format("gain of {}: expected {} channels, found {}", name_of(norm), width, gain.size()));
  }
  return gain;
}

double alpha_of(const StackSpec& spec, int sublayer, Weight norm) {
  return spec.scales == nullptr ? spec.model.norm_alpha
                                : scale_in(spec.scales->alphas, alpha_of(gain_id(sublayer, norm)));
}

VarianceProfile profile_of(const StackSpec& spec, int layer, Weight weight) {
  if (spec.scales == nullptr) return {};
  const auto it = spec.scales->profiles.find(matrix_id(layer, weight));
  if (it == spec.scales->profiles.end()) return {};
  const auto side = [&](const std::vector<double>& sizes, int length) {
    if (sizes.empty() || std::ranges::all_of(sizes, [](double size) { return size == 1.0; })) {
      return std::vector<double>();
    }
    if (sizes.size() != static_cast<std::size_t>(length) ||
        !std::ranges::all_of(sizes, [](double size) { return size >= 0.0 && std::isfinite(size); })) {
      throw std::logic_error(fmt::format("profile of {}: expected {} finite factors ≥ 0", name_of(weight), length));
    }
    return sizes;
  };
  const auto [fan_out, fan_in] = shape_of(spec.model, weight, layer);
  return {.rows = side(it->second.rows, fan_out), .columns = side(it->second.columns, fan_in)};
}

bool has_profiles(const StackSpec& spec) {
  return spec.scales != nullptr && std::ranges::any_of(spec.scales->profiles, [](const auto& entry) {
           const auto uneven = [](double size) { return size != 1.0; };
           return std::ranges::any_of(entry.second.rows, uneven) || std::ranges::any_of(entry.second.columns, uneven);
         });
}

}  // namespace periscope
