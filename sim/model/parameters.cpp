#include "sim/model/parameters.h"

#include <algorithm>

namespace periscope {
namespace {

std::vector<Weight> weights_before(const ModelSpec& m) {
  std::vector<Weight> all{Weight::embedding};
  if (m.projects_embedding()) all.push_back(Weight::project_in);
  if (m.embedding.positions > 0) all.push_back(Weight::positions);
  if (m.embedding.token_types > 0) all.push_back(Weight::token_types);
  if (m.embedding_norm) all.push_back(Weight::embedding_norm);
  return all;
}

std::vector<Weight> weights_after(const ModelSpec& m) {
  std::vector<Weight> all;
  if (m.final_norm) all.push_back(Weight::final_norm);
  if (!m.unembedding) return all;
  if (m.projects_embedding()) all.push_back(Weight::project_out);
  if (m.head.transform) {
    all.push_back(Weight::head_dense);
    all.push_back(Weight::head_norm);
  }
  all.push_back(Weight::unembedding);
  return all;
}

}  // namespace

std::vector<Weight> weights_in(const ModelSpec& m, int sublayer) {
  if (sublayer < 0) return weights_before(m);
  if (sublayer >= m.sublayers()) return weights_after(m);
  const Step step = m.step(m.step_with(sublayer));
  const Branch& branch = *std::ranges::find(step.branches, sublayer, &Branch::sublayer);
  const bool ends_step = branch == step.branches.back();
  std::vector<Weight> all;
  if (branch.norm_a) all.push_back(Weight::norm_a);
  if (branch.kind == ModuleKind::attention) {
    for (const Weight weight : {Weight::q, Weight::k, Weight::v, Weight::o}) all.push_back(weight);
    const int layer = ModelSpec::layer_of(sublayer);
    if (m.qk_norm_at(layer) != QkNorm::none) {
      for (const Weight weight : {Weight::q_norm, Weight::k_norm}) all.push_back(weight);
    }
    if (m.v_norm_at(layer)) all.push_back(Weight::v_norm);
    if (m.attention_gate_at(layer) != AttentionGate::none) all.push_back(Weight::attention_gate);
  } else {
    if (is_gated(m.mlp)) all.push_back(Weight::gate);
    for (const Weight weight : {Weight::up, Weight::down}) all.push_back(weight);
  }
  if (m.inner_norm_at(sublayer)) all.push_back(Weight::inner_norm);
  if (branch.norm_b) all.push_back(Weight::norm_b);
  if (branch.channel_scale) all.push_back(Weight::branch_scale);
  if (ends_step && std::ranges::find(step.norm_c, true) != step.norm_c.end()) all.push_back(Weight::norm_c);
  return all;
}

int fetched_with(const ModelSpec& m, const ParameterId& id) {
  if (is_of_layer(id.weight)) return id.sublayer;
  const bool before = is_table(id.weight) || id.weight == Weight::project_in || id.weight == Weight::embedding_norm;
  return before ? -1 : m.sublayers();
}

std::vector<ParameterId> matrices_of(const StackSpec& spec) {
  std::vector<ParameterId> all;
  for (int l = spec.input.kind == InputKind::gaussian ? 0 : -1; l <= spec.model.sublayers(); ++l) {
    for (const Weight weight : weights_in(spec.model, l)) {
      if (!is_norm(weight)) all.push_back(matrix_id(l / 2, weight));
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
  // Of an attention sublayer it is the only gate.
  std::string name(id.weight == Weight::attention_gate ? "gate" : name_of(id.weight));
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
