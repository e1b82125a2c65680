#pragma once

#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/stack_result.h"
#include "experiments/engine/settings/config.h"

namespace periscope::stacks {

struct ConfrontedStacks {
  std::vector<StackResult> stacks;
  std::vector<judge::SeedCurves> per_seed = {};  ///< of every stack, what verdicts compare, seed by seed
  bool stopped_early = false;                    ///< stacks are predicted, some measured, none judged
};

/// Predicts every stack of `config`, at the stacks' own widths only if theory.finite_width is true.
ConfrontedStacks predict_alone(const config::Config& config, Progress& progress);

/// Predicts, at the stack's own widths unless theory.finite_width is false, and measures every stack of `config` over
/// its seeds, and judges all of them together. `what` is the study, for progress and for a refusal of what --theory-set
/// overrides.
ConfrontedStacks confront(const config::Config& config, const std::string& what, Progress& progress);

}  // namespace periscope::stacks
