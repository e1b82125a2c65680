#pragma once

#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/train/train_spec.h"

namespace periscope::stacks {

/// Returns the range of values: "8", or "8 to 32" if they differ. `format` is the fmt format of one value.
[[nodiscard]] std::string range_of(const std::vector<double>& values, const char* format = "{:g}");

/// Returns a description of stacks in parts: σ√D (standard deviation of a random matrix that reads the stream, times
/// the square root of the width), layers, width and tokens; for trained stacks also corpus, peak learning rate, steps.
[[nodiscard]] std::vector<std::string> regime_of(const std::vector<StackSpec>& stacks,
                                                 const std::vector<TrainSpec>& trained = {});

/// Returns the parts as one line: "σ√D 0.2, 12 layers, …".
[[nodiscard]] std::string in_one_line(const std::vector<std::string>& regime);

}  // namespace periscope::stacks
