#include "theory/modules/fault.h"

#include "sim/spec/wiring.h"

namespace periscope::theory {

std::string_view meaning_of(Fault fault) {
  switch (fault) {
    case Fault::none: break;
    case Fault::beta0: return "the branch's kernel x1.01 behind a norm B, else x1.05, from the middle of the stack on";
    case Fault::attention_output: return "the kernel of attention's output x1.05";
    case Fault::no_score_path: return "the gradient of queries and keys does not go on down the stack";
    case Fault::query_gradient: return "the squared gradient of W_q x1.1";
    case Fault::depth_constant: return "constants that depend on depth as for one layer more";
    case Fault::without_v_norm: return "values as without their norm";
    case Fault::without_gate: return "the attention's gates open, all of them 1";
    case Fault::norm_alpha: return "alpha of every norm that has one x1.05";
  }
  return {};
}

bool acts_on(Fault fault, const StackSpec& spec, bool backward) {
  const ModelSpec& m = spec.model;
  switch (fault) {
    case Fault::no_score_path:
    case Fault::query_gradient: return backward;
    case Fault::depth_constant:
      for (int s = 0; s < m.steps(); ++s) {
        if (step_under(fault, m, s) != m.step(s)) return true;
      }
      return false;
    case Fault::without_v_norm:
    case Fault::without_gate:
      for (int layer = 0; layer < m.layers; ++layer) {
        if (fault == Fault::without_v_norm ? m.v_norm_at(layer) : m.gates_at(layer) > 0) return true;
      }
      return false;
    case Fault::norm_alpha:  // the final norm acts on gradients alone
      return facts_of(m.norm).has_alpha() && (m.embedding_norm || m.has_norms() || (backward && m.final_norm));
    default: return fault != Fault::none;
  }
}

double branch_factor(Fault fault, const ModelSpec& model, int sublayer) {
  if (fault != Fault::beta0 || sublayer < model.layers) return 1.0;
  return model.rule(sublayer).norm_b ? 1.01 : 1.05;
}

double attention_factor(Fault fault) { return fault == Fault::attention_output ? 1.05 : 1.0; }

double query_gradient_factor(Fault fault) { return fault == Fault::query_gradient ? 1.1 : 1.0; }

GradientPaths paths_under(Fault fault, GradientPaths chosen) {
  const bool all = chosen == GradientPaths::all;
  return fault == Fault::no_score_path && all ? GradientPaths::without_scores : chosen;
}

NormUse norm_under(Fault fault, const ModelSpec& model) {
  NormUse norm = norm_use(model);
  if (fault == Fault::norm_alpha && facts_of(model.norm).has_alpha()) norm.alpha *= 1.05;
  return norm;
}

Step step_under(Fault fault, const ModelSpec& model, int index) {
  Step step = step_of(model, index, fault == Fault::depth_constant ? 1 : 0);
  for (Branch& branch : step.branches) {
    if (!branch.channel_scale) continue;
    for (double& weight : branch.writes) weight *= *branch.channel_scale;
    branch.channel_scale.reset();
  }
  return step;
}

}  // namespace periscope::theory
