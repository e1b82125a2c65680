#pragma once

#include "sim/spec/model_spec.h"

namespace periscope {

/// The number of additions to the streams: 2L, or L where both modules of a layer read one stream side by side.
int steps_of(const ModelSpec& model);

/// Addition `index` of a stack, from 0. `more_layers`: with constants that depend on depth as in a stack of so many
/// more layers, counted from so many more.
Step step_of(const ModelSpec& model, int index, int more_layers = 0);

/// How the streams of a stack begin and end.
StreamEnds ends_of(const ModelSpec& model);

}  // namespace periscope
