#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/engine/settings/config.h"

/// The parts of a configuration that results must state: the values that are not the usual ones, and the keys in which
/// the stacks of a run differ.
namespace periscope::config {

/// Puts into every stack's `settings` the keys in which the stacks differ, with its own values, as a JSON object:
/// {"model.placement": "peri", "model.qk_norm": "full"}. input.kind, which results have a dimension for, is none of
/// them. A stack that is alone keeps "".
void note_differences(std::vector<StackSpec>& stacks);

/// {"model.qk_norm": "full", "run.seeds": 4, …}: the keys of model, init and input, and run.seeds, run.dtype and
/// run.weights, that have the same value in all stacks, which is not their default. Defaults that follow from other
/// keys, as model.kv_heads, count as such.
nlohmann::ordered_json config_differences(const Config& config, const std::vector<StackSpec>& stacks);

}  // namespace periscope::config
