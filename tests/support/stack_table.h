#pragma once

#include <string>
#include <vector>

#include "sim/spec/model_spec.h"

namespace periscope::testing {

struct NamedStack {
  std::string name;
  StackSpec spec;
};

/// Small stacks of every kind: placements with either choice of the final norm, the free form, norms, MLPs, attention,
/// norms and gates inside modules.
[[nodiscard]] std::vector<NamedStack> stacks_of_every_kind();

}  // namespace periscope::testing
