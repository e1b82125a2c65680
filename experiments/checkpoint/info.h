#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/checkpoint/checkpoint.h"

namespace periscope {

/// What a checkpoint is: its family, the placement of its norms and which tensor is which norm (T1, claim C2), shapes,
/// attention, number formats, what was not used. No weights are read.
nlohmann::ordered_json info_json(const Checkpoint& checkpoint);
std::string info_text(const Checkpoint& checkpoint);

}  // namespace periscope
