#include "theory/modules/fault.h"

#include "sim/spec/wiring.h"

namespace periscope::theory {

std::string_view meaning_of(Fault fault) {
  constexpr std::array<std::string_view, fault_names.size()> meanings{
      "", "branch kernel x1.01 after a norm B, otherwise x1.05, in the upper half of the stack",
      "gradients of queries and keys do not propagate down the stack", "squared gradient of W_q x1.1",
      "depth-dependent constants of a stack with one more layer"};
  return meanings[static_cast<std::size_t>(fault)];
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
