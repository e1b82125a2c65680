#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/settings/config.h"
#include "sim/measure/seed_average.h"
#include "theory/predict/predict.h"

namespace periscope::stacks {

/// The measurement of one stack.
struct Measurement {
  Profile profile;
  TopMagnitudes top;
  int seeds = 0;
  int diverged_seeds = 0;
  int diverged_at = -1;  ///< earliest sublayer, or −1
};

/// One cell of a run: a stack, its prediction and, unless only theory was asked for, its measurement.
struct StackResult {
  StackSpec spec;
  theory::Prediction prediction;
  std::optional<Measurement> measurement;
  judge::StackVerdict judged;
};

/// True if a verdict is "disagrees".
inline bool any_disagrees(const std::vector<StackResult>& results) {
  return std::ranges::any_of(results, [](const StackResult& r) { return judge::disagrees(r.judged); });
}

}  // namespace periscope::stacks
