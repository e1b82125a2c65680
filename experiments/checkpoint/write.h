#pragma once

#include <string>

#include "experiments/common/config.h"

namespace periscope {

/// Writes the configuration's stack, with the random weights of the first seed, into run.out as a checkpoint of
/// `family`: in f32, or in f64 if run.dtype says so. Throws ConfigError for more than one placement, a family that is
/// none or cannot express the model, and without run.out.
void write_random_checkpoint(const Config& config, const std::string& family);

}  // namespace periscope
