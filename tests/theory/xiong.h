#pragma once

#include <string_view>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "theory/passes/forward.h"

namespace periscope::theory {

/// Setting of Xiong et al.: uniform bidirectional attention, width × width matrices of variance 1/width, ReLU, eps 0.
inline StackSpec xiong_stack(std::string_view placement) {
  StackSpec spec;
  spec.model.layers = 6;
  spec.model.width = 64;
  spec.model.heads = 4;
  spec.model.kv_heads = 4;
  spec.model.head_dim = 16;
  spec.model.mlp = MlpKind::relu;
  spec.model.mlp_width = 64;
  spec.model.norm_eps = 0.0;
  spec.model.rope = false;
  spec.model.causal = false;
  spec.init.scheme = InitScheme::lecun;
  spec.init.qk_factor = 0.0;
  spec.input.tokens = 5;
  return testing::placed(spec, placement);
}

/// Returns x with a tolerance for a few hundred roundings.
inline doctest::Approx exactly(double x) { return approx(x).epsilon(1e-12); }

inline std::vector<double> predicted(const StackSpec& spec, Statistic statistic, Signal site,
                                     const ForwardReplicate& chain = {}) {
  return forward_profile(spec, chain).find(statistic, site)->value;
}

}  // namespace periscope::theory
