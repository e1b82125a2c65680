#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "sim/checkpoint/checkpoint.h"

namespace periscope::app {

/// Describes a checkpoint: family, placement of norms, the tensor of each norm (claim C2), shapes, attention, number
/// formats, unused tensors, first non-finite weight. Reads all used weights; shows progress for large checkpoints.
nlohmann::ordered_json info_json(const Checkpoint& checkpoint, stacks::Progress& progress);

/// Formats `info`, the description of a checkpoint, as a text table.
std::string info_text(const Checkpoint& checkpoint, const nlohmann::ordered_json& info);

/// Returns the findings of check_weights as JSON, without the kinds in `ignored`.
nlohmann::ordered_json check_json(const Checkpoint& checkpoint, const std::vector<std::string>& ignored,
                                  stacks::Progress& progress);

/// Formats `check`, the result of check_json, with one line per finding.
std::string check_text(const nlohmann::ordered_json& check);

}  // namespace periscope::app
