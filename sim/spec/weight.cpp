#include "sim/spec/weight.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace periscope {

WeightShape shape_of(const ModelSpec& m, Weight weight) {
  switch (weight) {
    case Weight::q: return {m.query_width(), m.width};
    case Weight::k:
    case Weight::v: return {m.key_width(), m.width};
    case Weight::o: return {m.width, m.query_width()};
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
    default: throw std::logic_error(std::string(name_of(weight)) + " is not a matrix");
  }
}

int norm_width(const ModelSpec& m, Weight norm) {
  switch (norm) {
    case Weight::q_norm: return m.qk_norm == QkNorm::full ? m.query_width() : m.head_dim;
    case Weight::k_norm: return m.qk_norm == QkNorm::full ? m.key_width() : m.head_dim;
    case Weight::head_norm: return m.embedding_width();
    default: return m.width;
  }
}

double stddev_of(const StackSpec& spec, Weight weight) {
  if (is_table(weight)) return std::sqrt(spec.input.second_moment);
  const auto [fan_out, fan_in] = shape_of(spec.model, weight);
  const InitSpec& init = spec.init;
  double std = 0.0;
  switch (init.scheme) {
    case InitScheme::normal: std = init.std; break;
    case InitScheme::lecun: std = std::sqrt(1.0 / fan_in); break;
    case InitScheme::he: std = std::sqrt(2.0 / fan_in); break;
    case InitScheme::xavier: std = std::sqrt(2.0 / (fan_in + fan_out)); break;
    case InitScheme::scaled: std = std::sqrt(init.factor / fan_in); break;
  }
  if (weight == Weight::q || weight == Weight::k) return std * init.qk_factor;
  if (weight == Weight::down) std *= init.down_factor;
  const bool branch = weight == Weight::v || weight == Weight::o || weight == Weight::up || weight == Weight::down;
  const auto gain = spec.model.placement.branch_init_gain;
  return branch && gain != nullptr ? std * gain(spec.model.layers) : std;
}

}  // namespace periscope
