#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "sim/checkpoint/checkpoint.h"

namespace periscope::app {

/// Returns the description of a checkpoint: its family, the placement of its norms and which tensor is which norm (T1,
/// claim C2), shapes, attention, number formats, unused tensors, and the first weight that is not finite. Reads all
/// used weights, and shows progress if there are many.
nlohmann::ordered_json info_json(const Checkpoint& checkpoint, stacks::Progress& progress);

/// Returns `info`, the description of a checkpoint, for people.
std::string info_text(const Checkpoint& checkpoint, const nlohmann::ordered_json& info);

/// Returns the flag --ignore-key, for commands that are not studies.
inline std::vector<study::Flag<study::CheckpointFlags>> ignore_key_flags() {
  return {study::ignore_key_flag<study::CheckpointFlags>()};
}

}  // namespace periscope::app
