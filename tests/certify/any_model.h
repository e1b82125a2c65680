#pragma once

#include "tests/property/arbitrary_stack.h"

namespace periscope::testing {

/// A stack with every part that a model may have: any placement and free form, MLP, eps, score rules, embedding and
/// head. Call inside a property.
StackSpec any_model();

}  // namespace periscope::testing
