#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/engine/run/progress.h"
#include "sim/checkpoint/checkpoint.h"

namespace periscope::app {

/// Returns the description of a checkpoint: its family, the placement of its norms and which tensor is which norm (T1,
/// claim C2), shapes, attention, number formats, unused tensors, and the first weight that is not finite. Reads all
/// used weights, and shows progress if there are many.
nlohmann::ordered_json info_json(const Checkpoint& checkpoint, stacks::Progress& progress);

/// Returns `info`, the description of a checkpoint, for people.
std::string info_text(const Checkpoint& checkpoint, const nlohmann::ordered_json& info);

}  // namespace periscope::app
