#pragma once

#include <array>
#include <string_view>

#include "sim/base/enumerators.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// Paths through the stack that a predicted gradient includes.
enum class GradientPaths {
  all,
  without_scores,  ///< attention patterns are constants: only the value path of attention (T9)
  skip_only,       ///< only the residual connections: alpha and norm C, no branch
};

/// A deliberate error in the theory, used to test whether verdicts detect it. No override of the specification has the
/// same effect. The finite-width chain (T25) makes the same error as its limit (T2–T6).
enum class Fault {
  none,
  beta0,           ///< T6: from sublayer L on, multiply branch kernels by 1.01 after a norm B, otherwise by 1.05
  no_score_path,   ///< T9: gradients of queries and keys do not propagate further down the stack
  query_gradient,  ///< T11: E‖∂loss/∂W_q‖² ×1.1
  depth_constant,  ///< T1: use α, β, input gain and Mix-LN boundary of a stack with one more layer, layer indices + 1
};

inline constexpr std::array<std::string_view, 5> fault_names{"none", "beta0", "no-score-path", "query-gradient",
                                                             "depth-constant"};
static_assert(are_names_of<Fault>(fault_names));

/// Returns a description of a fault for tables and files; "" for Fault::none.
[[nodiscard]] std::string_view meaning_of(Fault fault);

/// Returns false if the fault changes no prediction for the stack: a gradient fault without `backward`, or
/// depth_constant for a placement without depth constants.
[[nodiscard]] bool acts_on(Fault fault, const StackSpec& spec, bool backward);

/// Returns the factor that multiplies a branch's kernel (β times the output of B) in a sublayer's residual sum.
[[nodiscard]] double branch_factor(Fault fault, const ModelSpec& model, int sublayer);
/// Returns a step with the fault applied. The initial value of a per-channel scale is multiplied into `writes`.
[[nodiscard]] Step step_under(Fault fault, const ModelSpec& model, int index);

}  // namespace periscope::theory
