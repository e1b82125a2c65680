#pragma once

#include <string_view>
#include <vector>

#include "sim/spec/model_spec.h"

namespace periscope::config {

/// Throws ConfigError that names model.norm for a stack whose norms bend every entry by itself (DyT, Derf), where a
/// study needs norms that divide by a size; `why` is the rest of the sentence.
void require_dividing_norms(const std::vector<StackSpec>& stacks, std::string_view why);

/// True if every step of a stack is T1's addition to its stream.
bool has_single_additions(const ModelSpec& model);
/// Throws ConfigError that names model.placement for a stack whose steps are not T1's x⁺ = C(αx + βB(f(sA(x)))) of one
/// module each, where a study needs that they are; `why` is the rest of the sentence.
void require_single_additions(const std::vector<StackSpec>& stacks, std::string_view why);

}  // namespace periscope::config
