#pragma once

#include "sim/checkpoint/families/llama_like.h"

namespace periscope {

/// What Qwen 2 and 3 have in common: Pre-LN, RMSNorm, gated MLP, RoPE; from layer max_window_layers on a window, if
/// use_sliding_window says so. `stack.model.head_dim` is read already.
void read_qwen(ConfigReader& config, FamilyStack& stack);

}  // namespace periscope
