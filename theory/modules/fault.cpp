#include "theory/modules/fault.h"

#include "sim/spec/wiring.h"

namespace periscope::theory {

std::string_view meaning_of(Fault fault) {
  switch (fault) {
    case Fault::none: break;
    case Fault::beta0: return "the branch's kernel x1.01 behind a norm B, else x1.05, from the middle of the stack on";
    case Fault::no_score_path: return "the gradient of queries and keys does not go on down the stack";
    case Fault::query_gradient: return "the squared gradient of W_q x1.1";
    case Fault::depth_constant: return "constants that depend on depth as for one layer more";
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
    default: return fault != Fault::none;
  }
}

double branch_factor(Fault fault, const ModelSpec& model, int sublayer) {
  if (fault != Fault::beta0 || sublayer < model.layers) return 1.0;
  return model.rule(sublayer).norm_b ? 1.01 : 1.05;
}

double query_gradient_factor(Fault fault) { return fault == Fault::query_gradient ? 1.1 : 1.0; }

GradientPaths paths_under(Fault fault, GradientPaths chosen) {
  const bool all = chosen == GradientPaths::all;
  return fault == Fault::no_score_path && all ? GradientPaths::without_scores : chosen;
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
