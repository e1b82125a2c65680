#include "sim/model/scaled_weights.h"

#include <fmt/format.h>

#include <algorithm>

namespace periscope {
namespace {

using Part = ParameterId::Part;

bool is_writer(Weight weight) { return weight == Weight::o || weight == Weight::down; }

/// True if the head reads a stream that is multiplied by c.
bool head_reads_scaled(const ModelSpec& m) { return !m.final_norm || m.ends().has_plain(); }

/// True if the embedding's factor is applied to a table that is tied to the unembedding.
bool scales_tied_table(const ModelSpec& m, const StackScale& scale) {
  return scale.embedding == TableFactor::tied_table && !m.embedding_norm;
}

bool is_first_of_head(const ModelSpec& m, Weight weight) {
  if (m.projects_embedding()) return weight == Weight::project_out;
  return weight == (m.head.transform ? Weight::head_dense : Weight::unembedding);
}

/// True if this weight scales the branch inside the module: W_o, W_down, or W_up in a gated MLP.
bool carries_branch_scale(const ModelSpec& m, int sublayer, Weight weight) {
  if (weight == Weight::o) return true;
  // An inner norm would cancel a factor applied to W_up.
  return weight == (is_gated(m.mlp) && !m.inner_norm_at(sublayer) ? Weight::up : Weight::down);
}

double table_factor(const ModelSpec& m, const StackScale& scale, Weight weight) {
  if (m.embedding_norm || (weight == Weight::embedding && scale.embedding == TableFactor::scale)) return 1.0;
  return scale.stream;
}

/// Returns the factor of a matrix that is outside the layers and is not a table.
double end_factor(const ModelSpec& m, const StackScale& scale, Weight weight) {
  const double c = scale.stream;
  if (scale.gains_only) return 1.0;
  double factor = is_first_of_head(m, weight) && head_reads_scaled(m) ? 1.0 / c : 1.0;
  if (!scales_tied_table(m, scale)) return factor;
  if (weight == Weight::unembedding) factor *= c;
  if (weight == Weight::project_out) factor /= c;
  return factor;
}

double matrix_factor(const ModelSpec& m, const StackScale& scale, int sublayer, Weight weight) {
  const double c = scale.stream;
  if (is_table(weight)) return table_factor(m, scale, weight);
  if (!is_of_layer(weight)) return end_factor(m, scale, weight);
  if (scale.gains_only) return 1.0;
  const SublayerRule rule = m.rule(sublayer);
  double factor = 1.0;
  if (is_writer(weight) && !rule.norm_b) factor *= c;
  if (!is_writer(weight) && !rule.norm_a) factor /= c;
  if (rule.norm_b && carries_branch_scale(m, sublayer, weight)) factor *= scale.branch;
  return factor;
}

double bias_factor(const ModelSpec& m, const StackScale& scale, int sublayer, Weight weight) {
  const double c = scale.stream;
  if (weight == Weight::project_in) return m.embedding_norm ? 1.0 : c;
  if (weight == Weight::project_out && scales_tied_table(m, scale)) return 1.0 / c;
  if (!is_of_layer(weight) || scale.gains_only) return 1.0;
  const SublayerRule rule = m.rule(sublayer);
  double factor = 1.0;
  if (is_writer(weight) && !rule.norm_b) factor *= c;
  // In a gated MLP, the bias of W_down is added to a vector that W_up has scaled by k.
  if (rule.norm_b && (carries_branch_scale(m, sublayer, weight) || weight == Weight::down)) factor *= scale.branch;
  return factor;
}

double norm_factor(const ModelSpec& m, const StackScale& scale, Weight norm) {
  switch (norm) {
    case Weight::embedding_norm:
    case Weight::norm_b:
    case Weight::norm_c: return scale.stream;
    case Weight::final_norm: {
      const double factor = m.ends().has_plain() ? scale.stream : 1.0;
      return scales_tied_table(m, scale) && !m.projects_embedding() ? factor / scale.stream : factor;
    }
    default: return 1.0;
  }
}

}  // namespace

ModelSpec scaled_model(ModelSpec model, const StackScale& scale) {
  if (!model.embedding_norm && scale.embedding == TableFactor::scale) model.embedding.scale *= scale.stream;
  return model;
}

double factor_of(const ModelSpec& m, const StackScale& scale, const ParameterId& id) {
  if (id.part == Part::alpha) return 1.0;
  if (is_norm(id.weight)) return norm_factor(m, scale, id.weight);
  return id.part == Part::matrix ? matrix_factor(m, scale, id.sublayer, id.weight)
                                 : bias_factor(m, scale, id.sublayer, id.weight);
}

Tensor ScaledWeights::times(double factor, const Tensor& x) const {
  return x.empty() || factor == 1.0 ? x : backend_.scale(factor, x);
}

SublayerWeights ScaledWeights::fetch(int sublayer) const {
  SublayerWeights all = source_.fetch(sublayer);
  for (auto& [weight, linear] : all.linear) {
    const ParameterId id = matrix_id(sublayer / 2, weight);
    const double factor = factor_of(model_, scale_, id);
    const auto scale_map = [&](std::shared_ptr<const LinearMap>& map) {
      if (factor != 1.0) map = dense_map([this, factor, map] { return times(factor, map->dense()); });
    };
    if (linear.experts.empty()) scale_map(linear.map);
    std::ranges::for_each(linear.experts, scale_map);
    linear.bias = times(factor_of(model_, scale_, bias_of(id)), linear.bias);
  }
  for (auto& [weight, norm] : all.norms) {
    const double factor = factor_of(model_, scale_, gain_id(sublayer, weight));
    norm.gain = times(factor, norm.gain);
    norm.bias = times(factor, norm.bias);
  }
  return all;
}

Tensor ScaledWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return times(factor_of(model_, scale_, matrix_id(0, table)), source_.rows(ops, table, ids));
}

ScaleRecipe recipe_of(const ModelSpec& m, TableFactor embedding) {
  ScaleRecipe recipe{{}, {}, true};
  bool b = false;
  bool c = false;
  bool raw_writer = false;
  bool raw_readers = false;
  bool gates = false;
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    b = b || rule.norm_b;
    c = c || rule.norm_c;
    raw_writer = raw_writer || !rule.norm_b;
    raw_readers = raw_readers || !rule.norm_a;
    gates = gates || m.gates_at(ModelSpec::layer_of(l)) > 0;
  }
  if (m.embedding_norm) {
    recipe.multiplied.emplace_back("gain and bias of the embedding norm");
  } else {
    switch (embedding) {
      case TableFactor::scale: recipe.multiplied.emplace_back("the embedding's scale (not a tied table)"); break;
      case TableFactor::table: recipe.multiplied.emplace_back("the embedding table"); break;
      case TableFactor::tied_table: recipe.multiplied.emplace_back("the embedding table, tied to the unembedding");
    }
    if (m.projects_embedding() && embedding != TableFactor::scale)
      recipe.multiplied.emplace_back("the bias of the matrix after it, if present");
    if (m.embedding.positions > 0) recipe.multiplied.emplace_back("the position table");
    if (m.embedding.token_types > 0) recipe.multiplied.emplace_back("the token-type table");
  }
  if (b) recipe.multiplied.emplace_back("gain and bias of norms B");
  if (c) recipe.multiplied.emplace_back("gain and bias of norms C");
  if (m.ends().has_plain() && m.final_norm) recipe.multiplied.emplace_back("gain and bias of the final norm");
  if (raw_writer) recipe.multiplied.emplace_back("W_o and W_down with their biases where no norm B follows");
  if (raw_readers) recipe.divided.emplace_back("W_q, W_k, W_v, W_up and W_gate where no norm A precedes");
  if (raw_readers && gates) recipe.divided.emplace_back("the attention's gate matrix in these sublayers");
  if (head_reads_scaled(m)) recipe.divided.emplace_back("the head's first matrix");
  if (embedding == TableFactor::tied_table && !m.embedding_norm) {
    recipe.divided.emplace_back(m.projects_embedding()
                                    ? "the matrix before the tied unembedding, and its bias"
                                    : "gain and bias of the final norm, before the tied unembedding");
  }
  recipe.gains_only = !raw_writer && !raw_readers && !head_reads_scaled(m) &&
                      (m.embedding_norm || (m.embedding.positions == 0 && m.embedding.token_types == 0));
  return recipe;
}

bool can_scale(const ModelSpec& m) { return !is_pointwise(m.norm) && (m.unembedding || !head_reads_scaled(m)); }

std::optional<std::string> gauge_unsupported(const ModelSpec& m, TableFactor embedding) {
  if (is_pointwise(m.norm)) {
    return fmt::format("the output of {} depends on the scale of the stream", facts_of(m.norm).title);
  }
  for (int s = 0; s < m.steps(); ++s) {
    for (const bool c : m.step(s).norm_c) {
      if (c) return fmt::format("the first norm C, after addition {}, fixes the scale of the stream", s);
    }
  }
  for (int l = 0; l < m.sublayers(); ++l) {
    if (!m.rule(l).norm_a) return fmt::format("sublayer {} has no norm A", l);
  }
  if (m.ends().has_plain()) return "the output contains a stream without a norm";
  if (!m.final_norm) return "the stack has no final norm";
  if (embedding == TableFactor::tied_table && !m.embedding_norm && m.head.transform) {
    return "the head has a transform between the final norm and the tied unembedding";
  }
  return std::nullopt;
}

}  // namespace periscope
