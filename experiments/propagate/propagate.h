#pragma once

#include <string>
#include <vector>

#include "experiments/command/progress.h"
#include "experiments/common/config.h"
#include "experiments/common/stack_result.h"
#include "experiments/results/columns.h"

namespace periscope::propagate {

struct PropagateResult {
  std::vector<StackResult> stacks;
  bool stopped_early = false;  ///< stacks are predicted, some measured, none judged
};

/// Predicts every stack of `config`, at the stacks' own widths only if theory.finite_width is true.
PropagateResult predict(const Config& config, Progress& progress);

/// Predicts, at the stack's own widths unless theory.finite_width is false, and measures every stack of `config` over
/// its seeds, and judges all of them together.
PropagateResult run(const Config& config, Progress& progress);

/// Writes what an outside program needs to check every number of one pass, the run's first seed, into `folder`:
/// config.json, model.safetensors (parameters, named by sim/model/parameters.h) and activations.safetensors
/// (input, tokens, labels, stream.0 … stream.2L, logits, loss and, with run.backward, grad.stream.… and
/// grad.weight.<parameter>). All numbers are stored in f64, and computed in f64 unless a dtype was asked for.
/// Throws ConfigError if the configuration has more than one stack, and for files that are there already unless
/// `overwrite`.
void dump(const Config& config, const std::string& folder, bool overwrite);

/// The result of propagate and theory as columns on the dimensions (input, placement, …).
const Schema& schema();
Columns columns(const Config& config, const std::vector<StackResult>& results);

}  // namespace periscope::propagate
