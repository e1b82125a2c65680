#pragma once

namespace periscope::theory {

/// Which paths a predicted gradient takes through the stack.
enum class GradientPaths {
  all,
  without_scores,  ///< attention patterns count as constants: T9's value path alone
  skip_only,       ///< the residual connections alone: alpha and norm C, no branch
};

}  // namespace periscope::theory
