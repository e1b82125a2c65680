#pragma once

#include <string_view>
#include <vector>

#include "sim/spec/model_spec.h"

namespace periscope::config {

/// Throws ConfigError that names model.norm for a stack whose norms bend every entry by itself (DyT, Derf), where a
/// study needs norms that divide by a size; `why` is the rest of the sentence.
void require_dividing_norms(const std::vector<StackSpec>& stacks, std::string_view why);

}  // namespace periscope::config
