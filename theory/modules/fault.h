#pragma once

#include <array>
#include <string_view>

#include "sim/base/enumerators.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// The paths that a predicted gradient takes through the stack.
enum class GradientPaths {
  all,
  without_scores,  ///< attention patterns count as constants: T9's value path alone
  skip_only,       ///< the residual connections alone: alpha and norm C, no branch
};

/// A named mistake inside the theory, planted to see whether a verdict notices it. No override
/// of the specification that theory takes amounts to one of them. The chain of Gram matrices (T25) makes the same
/// mistake as its limit (T2–T6).
enum class Fault {
  none,
  beta0,           ///< β₀: the branch's kernel in T6, ×1.01 after a norm B and ×1.05 without, from sublayer L on
  no_score_path,   ///< T9: the gradient of queries and keys does not go on down the stack
  query_gradient,  ///< T11: E‖∂loss/∂W_q‖² ×1.1
  depth_constant,  ///< T1: α, β, input gain and Mix-LN's seam as for one layer more, layers counted from one more
};

inline constexpr std::array<std::string_view, 5> fault_names{"none", "beta0", "no-score-path", "query-gradient",
                                                             "depth-constant"};
static_assert(are_names_of<Fault>(fault_names));

/// Returns what a fault does, in words for tables and files; "" for none.
[[nodiscard]] std::string_view meaning_of(Fault fault);

/// False if the fault changes nothing that is predicted of such a stack: faults of gradients without `backward`, a
/// depth constant where the placement has none.
[[nodiscard]] bool acts_on(Fault fault, const StackSpec& spec, bool backward);

/// Factor on the kernel of a branch (β·B's output) as it enters the residual sum of a sublayer.
[[nodiscard]] double branch_factor(Fault fault, const ModelSpec& model, int sublayer);
/// A step as theory takes it to be: with what the factors of its channels begin as in its writes.
[[nodiscard]] Step step_under(Fault fault, const ModelSpec& model, int index);

}  // namespace periscope::theory
