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

/// Returns the regime of training runs in parts: that of their stacks (stacks::regime_of), corpus, highest rate,
/// steps.
[[nodiscard]] std::vector<std::string> regime_of(const std::vector<Trained>& runs);

}  // namespace periscope::training
