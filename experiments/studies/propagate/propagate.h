#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/config.h"

namespace periscope::propagate {

/// Writes the first seed's pass of one stack into `folder`, for checks by other programs: config.json,
/// model.safetensors (parameters, named by sim/model/parameters.h) and activations.safetensors (input, tokens, labels,
/// stream.0 … stream.2L, logits, loss and, with run.backward, grad.stream.… and grad.weight.<parameter>). Numbers are
/// stored in f64, and computed in f64 unless a dtype is given. Calls `before_commit` after all files are written,
/// before they are renamed. Throws ConfigError for existing files unless `overwrite`.
void dump(const config::Config& config, const std::string& folder, bool overwrite,
          const std::function<void()>& before_commit);

/// Schema of the results of `propagate` and `theory`, on the dimensions (input, placement, …).
const dataset::Schema& schema();
dataset::Dataset dataset_of(const config::Config& config, const std::vector<stacks::StackResult>& results);

}  // namespace periscope::propagate
