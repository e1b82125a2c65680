#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/config.h"

namespace periscope::propagate {

/// Writes what an outside program needs to check every number of one pass, the run's first seed, into `folder`:
/// config.json, model.safetensors (parameters, named by sim/model/parameters.h) and activations.safetensors
/// (input, tokens, labels, stream.0 … stream.2L, logits, loss and, with run.backward, grad.stream.… and
/// grad.weight.<parameter>). All numbers are stored in f64, and computed in f64 unless a dtype was asked for.
/// `before_commit` is called when all files are whole, before they get their names. Of a configuration of one stack.
/// Throws ConfigError for files that are there already unless `overwrite`.
void dump(const config::Config& config, const std::string& folder, bool overwrite,
          const std::function<void()>& before_commit);

/// The result of propagate and theory, on the dimensions (input, placement, …).
const dataset::Schema& schema();
dataset::Dataset dataset_of(const config::Config& config, const std::vector<stacks::StackResult>& results);

}  // namespace periscope::propagate
