#pragma once

#include <string>
#include <vector>

#include "sim/spec/model_spec.h"

namespace periscope::testing {

struct NamedStack {
  std::string name;
  StackSpec spec;
};

/// Returns small stacks that cover all placements (with and without a final norm), custom placements, norms, MLPs,
/// attention options, and norms and gates inside modules.
[[nodiscard]] std::vector<NamedStack> stacks_of_every_kind();

}  // namespace periscope::testing
