#pragma once

#include <string_view>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"

/// Rules for stacks that only some studies or devices need, and the stack at another width.
namespace periscope::config {

/// Throws ConfigError that names model.norm for a stack whose norms bend every entry by itself (DyT, Derf), where a
/// study needs norms that divide by a size; `why` is the rest of the sentence.
void require_dividing_norms(const std::vector<StackSpec>& stacks, std::string_view why);

/// True if every step of a stack is T1's addition to its stream.
bool has_single_additions(const ModelSpec& model);
/// Throws ConfigError that names model.placement for a stack whose steps are not T1's x⁺ = C(αx + βB(f(sA(x)))) of one
/// module each, where a study needs that they are; `why` is the rest of the sentence.
void require_single_additions(const std::vector<StackSpec>& stacks, std::string_view why);

/// The stack at another width: head_dim is kept, heads, kv_heads and mlp_width go in proportion. Throws ConfigError,
/// which names `key`, where these would not be whole numbers.
StackSpec at_width(StackSpec spec, int width, std::string_view key);

/// Throws ConfigError that names the key if an initial weight of the stack, or an entry of its input, may be too large
/// for `dtype`.
void require_finite_weights(const StackSpec& spec, DType dtype);

}  // namespace periscope::config
