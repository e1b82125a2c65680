#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/train/train_spec.h"

namespace periscope::stacks {

/// Returns the regime of stacks in parts: σ√D (standard deviation of a random matrix that reads the
/// stream, times the root of the width), layers, width, tokens.
[[nodiscard]] std::vector<std::string> regime_of(const std::vector<StackSpec>& stacks);

/// A stack and how it was trained.
struct Trained {
  std::reference_wrapper<const StackSpec> spec;
  std::reference_wrapper<const TrainSpec> train;
};

/// Returns the regime of training runs in parts: that of their stacks, corpus, highest rate, steps.
[[nodiscard]] std::vector<std::string> regime_of(const std::vector<Trained>& runs);

/// "σ√D 0.2, 12 layers, …".
[[nodiscard]] std::string in_one_line(const std::vector<std::string>& regime);

}  // namespace periscope::stacks
