#include "sim/spec/wiring.h"

namespace periscope {
namespace {

/// T1's branch and its addition to one stream.
Step in_line(int sublayer, const SublayerRule& rule) {
  return {.branches = {{.sublayer = sublayer,
                        .kind = ModelSpec::kind_of(sublayer),
                        .reads = {1.0},
                        .norm_a = rule.norm_a,
                        .input_gain = rule.input_gain,
                        .norm_b = rule.norm_b,
                        .writes = {rule.beta}}},
          .mixing = {{rule.alpha}},
          .norm_c = {rule.norm_c}};
}

/// Beside it a sum of all branches, which no module reads.
Step beside_a_sum(int sublayer, const SublayerRule& rule) {
  Step step = in_line(sublayer, rule);
  step.branches.front().reads = {1.0, 0.0};
  step.branches.front().writes = {rule.beta, rule.beta};
  step.mixing = {{rule.alpha, 0.0}, {0.0, 1.0}};
  step.norm_c = {rule.norm_c, false};
  return step;
}

}  // namespace

int steps_of(const ModelSpec& m) { return m.sublayers(); }

Step step_of(const ModelSpec& m, int index, int more_layers) {
  const SublayerRule rule = m.rule(index, more_layers);
  switch (m.placement.wiring) {
    case Wiring::sequential: return in_line(index, rule);
    case Wiring::dual: return beside_a_sum(index, rule);
  }
  return {};
}

StreamEnds ends_of(const ModelSpec& m) {
  switch (m.placement.wiring) {
    case Wiring::sequential: break;
    case Wiring::dual: return {.plain = {1.0, 0.0}, .normed = {0.0, 1.0}, .names = {Signal::x_out, Signal::r_out}};
  }
  return {};
}

}  // namespace periscope
