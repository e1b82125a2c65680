#pragma once

#include <string_view>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"

/// Restrictions on stacks that only some studies or devices need, and stacks at other widths.
namespace periscope::config {

/// Throws ConfigError, naming model.norm, if a stack has a pointwise norm (DyT, Derf). The message ends with `why`.
void require_dividing_norms(const std::vector<StackSpec>& stacks, std::string_view why);

/// Returns true if every step of the stack adds one module: x⁺ = C(αx + βB(f(sA(x)))) (T1).
bool has_single_additions(const ModelSpec& model);
/// Throws ConfigError, naming model.placement, unless has_single_additions. The message ends with `why`.
void require_single_additions(const std::vector<StackSpec>& stacks, std::string_view why);

/// Returns the stack at another width with the same head_dim, and heads, kv_heads and mlp_width in proportion. Throws
/// ConfigError, naming ladder.widths, if these are not whole numbers.
StackSpec at_width(StackSpec spec, int width);

/// Throws ConfigError, naming the key, if an initial weight or an entry of the input may overflow `dtype`.
void require_finite_weights(const StackSpec& spec, DType dtype);

}  // namespace periscope::config
