#pragma once

#include "sim/spec/model_spec.h"

namespace periscope {

/// Number of additions to the streams: 2L, or L if both modules of a layer are parallel branches of one step.
int steps_of(const ModelSpec& model);

/// Returns addition number `index` (from 0) to a stack's streams. With `more_layers` = k, the
/// constants of layer l are those that layer l + k has in a stack with k more layers.
Step step_of(const ModelSpec& model, int index, int more_layers = 0);

/// Returns how the streams of a stack start and end.
StreamEnds ends_of(const ModelSpec& model);

}  // namespace periscope
