#include "experiments/studies/certify/scaled_weights.h"

namespace periscope::certify {
namespace {

bool is_writer(Weight weight) { return weight == Weight::o || weight == Weight::down; }

/// True if the head reads a stream that was multiplied by c.
bool head_reads_scaled(const ModelSpec& m) { return !m.final_norm || m.ends().has_plain(); }

bool is_first_of_head(const ModelSpec& m, Weight weight) {
  if (m.projects_embedding()) return weight == Weight::project_out;
  return weight == (m.head.transform ? Weight::head_dense : Weight::unembedding);
}

/// True if a branch is scaled inside the module: by W_o, by W_down, or in a gated MLP by W_up.
bool carries_branch_scale(const ModelSpec& m, int sublayer, Weight weight) {
  if (weight == Weight::o) return true;
  // Before an inner norm, a factor would be taken out again.
  return weight == (is_gated(m.mlp) && !m.inner_norm_at(sublayer) ? Weight::up : Weight::down);
}

}  // namespace

ModelSpec scaled_model(ModelSpec model, const StackScale& scale) {
  if (!model.embedding_norm) model.embedding.scale *= scale.stream;
  return model;
}

double ScaledWeights::matrix_factor(int sublayer, Weight weight) const {
  const double c = scale_.stream;
  if (weight == Weight::positions || weight == Weight::token_types) return model_.embedding_norm ? 1.0 : c;
  if (scale_.gains_only) return 1.0;
  if (!is_of_layer(weight)) {
    return is_first_of_head(model_, weight) && head_reads_scaled(model_) ? 1.0 / c : 1.0;
  }
  const SublayerRule rule = model_.rule(sublayer);
  double factor = 1.0;
  if (is_writer(weight) && !rule.norm_b) factor *= c;
  if (!is_writer(weight) && !rule.norm_a) factor /= c;
  if (rule.norm_b && carries_branch_scale(model_, sublayer, weight)) factor *= scale_.branch;
  return factor;
}

double ScaledWeights::bias_factor(int sublayer, Weight weight) const {
  const double c = scale_.stream;
  if (weight == Weight::project_in) return model_.embedding_norm ? 1.0 : c;
  if (!is_of_layer(weight) || scale_.gains_only) return 1.0;
  const SublayerRule rule = model_.rule(sublayer);
  double factor = 1.0;
  if (is_writer(weight) && !rule.norm_b) factor *= c;
  // The bias of a gated W_down is added to what W_up has made k times as large.
  if (rule.norm_b && (carries_branch_scale(model_, sublayer, weight) || weight == Weight::down))
    factor *= scale_.branch;
  return factor;
}

double ScaledWeights::norm_factor(Weight norm) const {
  switch (norm) {
    case Weight::embedding_norm:
    case Weight::norm_b:
    case Weight::norm_c: return scale_.stream;
    case Weight::final_norm: return model_.ends().has_plain() ? scale_.stream : 1.0;
    default: return 1.0;
  }
}

Tensor ScaledWeights::times(double factor, const Tensor& x) const {
  return x.empty() || factor == 1.0 ? x : backend_.scale(factor, x);
}

SublayerWeights ScaledWeights::fetch(int sublayer) const {
  SublayerWeights all = source_.fetch(sublayer);
  for (auto& [weight, linear] : all.linear) {
    const double factor = matrix_factor(sublayer, weight);
    if (factor != 1.0) {
      linear.map = dense_map([this, factor, map = linear.map] { return times(factor, map->dense()); });
    }
    linear.bias = times(bias_factor(sublayer, weight), linear.bias);
  }
  for (auto& [weight, norm] : all.norms) {
    norm.gain = times(norm_factor(weight), norm.gain);
    norm.bias = times(norm_factor(weight), norm.bias);
  }
  return all;
}

Tensor ScaledWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return times(matrix_factor(-1, table), source_.rows(ops, table, ids));
}

ScaleRecipe recipe_of(const ModelSpec& m) {
  ScaleRecipe recipe{{}, {}, true};
  bool b = false;
  bool c = false;
  bool raw_writer = false;
  bool raw_reader = false;
  bool gates = false;
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    b = b || rule.norm_b;
    c = c || rule.norm_c;
    raw_writer = raw_writer || !rule.norm_b;
    raw_reader = raw_reader || !rule.norm_a;
    gates = gates || m.gates_at(ModelSpec::layer_of(l)) > 0;
  }
  if (m.embedding_norm) {
    recipe.multiplied.emplace_back("gain and bias of the embedding norm");
  } else {
    recipe.multiplied.emplace_back("the embedding's scale (not a tied table)");
    if (m.embedding.positions > 0) recipe.multiplied.emplace_back("the position table");
    if (m.embedding.token_types > 0) recipe.multiplied.emplace_back("the token-type table");
  }
  if (b) recipe.multiplied.emplace_back("gain and bias of norms B");
  if (c) recipe.multiplied.emplace_back("gain and bias of norms C");
  if (m.ends().has_plain() && m.final_norm) recipe.multiplied.emplace_back("gain and bias of the final norm");
  if (raw_writer) recipe.multiplied.emplace_back("W_o and W_down with their biases where no norm B follows");
  if (raw_reader) recipe.divided.emplace_back("W_q, W_k, W_v, W_up and W_gate where no norm A precedes");
  if (raw_reader && gates) recipe.divided.emplace_back("the attention's gate matrix there");
  if (head_reads_scaled(m)) recipe.divided.emplace_back("the head's first matrix");
  recipe.gains_alone = !raw_writer && !raw_reader && !head_reads_scaled(m) &&
                       (m.embedding_norm || (m.embedding.positions == 0 && m.embedding.token_types == 0));
  return recipe;
}

bool can_scale(const ModelSpec& m) { return !is_pointwise(m.norm) && (m.unembedding || !head_reads_scaled(m)); }

}  // namespace periscope::certify
