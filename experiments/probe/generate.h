#pragma once

#include <functional>
#include <vector>

#include "sim/model/context.h"

namespace periscope::probe {

/// Continues a sequence by `count` tokens, each the one with the largest logit (of equals the first), by a whole
/// forward pass per token. `on_token` gets each as it comes.
[[nodiscard]] std::vector<int> generate_greedily(const StackContext& context, std::vector<int> ids, int count,
                                                 const std::function<void(int)>& on_token);

}  // namespace periscope::probe
