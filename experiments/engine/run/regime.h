#pragma once

#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/train/train_spec.h"

namespace periscope::stacks {

/// Returns "8", or "8 to 32" if the values differ. `format` is fmt's for one value.
[[nodiscard]] std::string range_of(const std::vector<double>& values, const char* format = "{:g}");

/// Returns the regime of stacks in parts: σ√D (standard deviation of a random matrix that reads the stream, times the
/// root of the width), layers, width, tokens; of `trained` ones also corpus, highest learning rate and steps.
[[nodiscard]] std::vector<std::string> regime_of(const std::vector<StackSpec>& stacks,
                                                 const std::vector<TrainSpec>& trained = {});

/// "σ√D 0.2, 12 layers, …".
[[nodiscard]] std::string in_one_line(const std::vector<std::string>& regime);

}  // namespace periscope::stacks
