#pragma once

#include <string_view>

#include "sim/spec/model_spec.h"

namespace periscope::config {

/// The stack at another width: head_dim is kept, heads, kv_heads and mlp_width go in proportion. Throws ConfigError,
/// which names `key`, where these would not be whole numbers.
StackSpec at_width(StackSpec spec, int width, std::string_view key);

}  // namespace periscope::config
