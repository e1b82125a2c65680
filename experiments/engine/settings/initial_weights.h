#pragma once

#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"

namespace periscope::config {

/// Throws ConfigError that names the key if an initial weight of the stack, or an entry of its input, may be too large
/// for `dtype`.
void require_finite_weights(const StackSpec& spec, DType dtype);

}  // namespace periscope::config
