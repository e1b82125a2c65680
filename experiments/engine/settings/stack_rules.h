#pragma once

#include <string_view>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"

/// Rules for stacks that only some studies or devices need, and the stack at another width.
namespace periscope::config {

/// Throws ConfigError that names model.norm if a stack has a pointwise norm (DyT, Derf); `why` ends the sentence.
void require_dividing_norms(const std::vector<StackSpec>& stacks, std::string_view why);

/// True if every step of a stack is x⁺ = C(αx + βB(f(sA(x)))) of one module (T1).
bool has_single_additions(const ModelSpec& model);
/// Throws ConfigError that names model.placement unless has_single_additions; `why` ends the sentence.
void require_single_additions(const std::vector<StackSpec>& stacks, std::string_view why);

/// Returns the stack at another width: the same head_dim, with heads, kv_heads and mlp_width in proportion. Throws
/// ConfigError, which names ladder.widths, if these would not be whole numbers.
StackSpec at_width(StackSpec spec, int width);

/// Throws ConfigError that names the key if an initial weight or an entry of the input may be too large for `dtype`.
void require_finite_weights(const StackSpec& spec, DType dtype);

}  // namespace periscope::config
