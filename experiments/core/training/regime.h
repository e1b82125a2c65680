#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/train/train_spec.h"

namespace periscope::training {

/// A stack and how it was trained.
struct Trained {
  std::reference_wrapper<const StackSpec> spec;
  std::reference_wrapper<const TrainSpec> train;
};

/// The regime of what these runs show, from their settings: σ√D (standard deviation of a random matrix that reads the
/// stream, times the root of the width), layers, width, tokens, corpus, highest rate, steps. Where the runs differ a
/// part says from what to what.
[[nodiscard]] std::vector<std::string> regime_of(const std::vector<Trained>& runs);

/// The parts in one line: "σ√D 0.2, 12 layers, …".
[[nodiscard]] std::string in_one_line(const std::vector<std::string>& regime);

}  // namespace periscope::training
