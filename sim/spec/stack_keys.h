#pragma once

#include "sim/base/key.h"
#include "sim/spec/model_spec.h"

namespace periscope {

/// Keys of sections [model], [init] and [input]: all fields of a StackSpec except those set by checkpoints.
extern const Section<ModelSpec> model_section;
extern const Section<InitSpec> init_section;
extern const Section<InputSpec> input_section;
/// Keys of a free form in model.placement.
extern const Section<SublayerRule> placement_section;

}  // namespace periscope
