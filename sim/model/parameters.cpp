#include "sim/model/parameters.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

namespace periscope {
namespace {

/// Returns the weights whose flag is true.
std::vector<Weight> used(std::initializer_list<std::pair<Weight, bool>> rows) {
  std::vector<Weight> all;
  for (const auto& [weight, is_used] : rows) {
    if (is_used) all.push_back(weight);
  }
  return all;
}

}  // namespace

std::vector<Weight> weights_in(const ModelSpec& m, int sublayer) {
  if (sublayer < 0) {
    return used({{Weight::embedding, true},
                 {Weight::project_in, m.projects_embedding()},
                 {Weight::positions, m.embedding.positions > 0},
                 {Weight::token_types, m.embedding.token_types > 0},
                 {Weight::embedding_norm, m.embedding_norm}});
  }
  if (sublayer >= m.sublayers()) {
    return used({{Weight::final_norm, m.final_norm},
                 {Weight::project_out, m.unembedding && m.projects_embedding()},
                 {Weight::head_dense, m.unembedding && m.head.transform},
                 {Weight::head_norm, m.unembedding && m.head.transform},
                 {Weight::unembedding, m.unembedding}});
  }
  const Step step = m.step(m.step_with(sublayer));
  const Branch& branch = *std::ranges::find(step.branches, sublayer, &Branch::sublayer);
  const bool ends_step = branch == step.branches.back();
  const bool attention = branch.kind == ModuleKind::attention;
  const bool qk_norm = attention && m.qk_norm_at(branch.layer()) != QkNorm::none;
  return used({{Weight::norm_a, branch.norm_a},
               {Weight::q, attention},
               {Weight::k, attention},
               {Weight::v, attention},
               {Weight::o, attention},
               {Weight::q_norm, qk_norm},
               {Weight::k_norm, qk_norm},
               {Weight::v_norm, attention && m.v_norm_at(branch.layer())},
               {Weight::attention_gate, attention && m.attention_gate_at(branch.layer()) != AttentionGate::none},
               {Weight::router, !attention && m.experts.count > 0},
               {Weight::gate, !attention && is_gated(m.mlp)},
               {Weight::up, !attention},
               {Weight::down, !attention},
               {Weight::inner_norm, m.inner_norm_at(sublayer)},
               {Weight::norm_b, branch.norm_b},
               {Weight::branch_scale, branch.channel_scale.has_value()},
               {Weight::norm_c, ends_step && std::ranges::find(step.norm_c, true) != step.norm_c.end()}});
}

std::vector<int> experts_of(const ModelSpec& m, Weight weight) {
  if (m.experts.count == 0 || !is_of_expert(weight)) return {-1};
  std::vector<int> all(static_cast<std::size_t>(m.experts.count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int owner_sublayer(const ModelSpec& m, const ParameterId& id) {
  if (is_of_layer(id.weight)) return id.sublayer;
  const bool before = is_table(id.weight) || id.weight == Weight::project_in || id.weight == Weight::embedding_norm;
  return before ? -1 : m.sublayers();
}

std::vector<ParameterId> matrices_of(const StackSpec& spec) {
  std::vector<ParameterId> all;
  for (int l = spec.input.kind == InputKind::gaussian ? 0 : -1; l <= spec.model.sublayers(); ++l) {
    for (const Weight weight : weights_in(spec.model, l)) {
      if (is_norm(weight)) continue;
      for (const int expert : experts_of(spec.model, weight)) all.push_back(matrix_id(l / 2, weight, expert));
    }
  }
  return all;
}

std::vector<ParameterId> gains_of(const ModelSpec& m) {
  std::vector<ParameterId> all;
  for (int l = -1; l <= m.sublayers(); ++l) {
    for (const Weight weight : weights_in(m, l)) {
      if (is_norm(weight)) all.push_back(gain_id(l, weight));
    }
  }
  return all;
}

std::vector<ParameterId> all_parameters_of(const StackSpec& spec) {
  std::vector<ParameterId> all = matrices_of(spec);
  for (const ParameterId& gain : gains_of(spec.model)) {
    all.push_back(gain);
    const NormFacts& facts = facts_of(kind_of(spec.model, gain.weight));
    if (facts.has_bias) all.push_back(bias_of(gain));
    if (facts.has_alpha()) all.push_back(alpha_of(gain));
  }
  return all;
}

std::string name_of(const ParameterId& id) {
  // An attention sublayer has no other gate, so the short name is unambiguous.
  std::string name(id.weight == Weight::attention_gate ? "gate" : name_of(id.weight));
  if (id.expert >= 0) name = "experts." + std::to_string(id.expert) + "." + name;
  if (is_of_layer(id.weight)) {
    const bool attention = ModelSpec::is_attention(id.sublayer);
    name = "layers." + std::to_string(id.layer()) + (attention ? ".attention." : ".mlp.") + name;
  }
  switch (id.part) {
    case ParameterId::Part::matrix: return name + ".weight";
    case ParameterId::Part::gain: return name + ".gain";
    case ParameterId::Part::bias: return name + ".bias";
    case ParameterId::Part::alpha: return name + ".alpha";
  }
  return name;
}

}  // namespace periscope
