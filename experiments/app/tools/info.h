#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/config.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "sim/checkpoint/checkpoint.h"

namespace periscope::app {

/// Return the description of a checkpoint: its family, the placement of its norms and which tensor is which norm (T1,
/// claim C2), shapes, attention, number formats, unused tensors, and the first weight that is not finite.
nlohmann::ordered_json info_json(const Checkpoint& checkpoint, stacks::Progress& progress);
std::string info_text(const Checkpoint& checkpoint, stacks::Progress& progress);

/// Returns the flag --ignore-key, for commands that are not studies.
std::vector<study::Flag<study::CheckpointFlags>> ignore_key_flags();

/// Throws ConfigError for a family that is none.
void require_family(const std::string& family);

/// Writes the configuration's stack, with the random weights of the first seed, into run.out as a checkpoint of
/// `family`: in f32, or in f64 if run.dtype says so. Throws ConfigError for more than one placement, a family that is
/// none or cannot express the model, without run.out, and for files that are there already unless `overwrite`.
void write_random_checkpoint(const config::Config& config, const std::string& family, bool overwrite);

}  // namespace periscope::app
