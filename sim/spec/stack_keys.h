#pragma once

#include "sim/base/key.h"
#include "sim/spec/model_spec.h"

namespace periscope {

/// [model], [init] and [input] of the configuration: every key of a StackSpec that is not a checkpoint's.
extern const Section<ModelSpec> model_section;
extern const Section<InitSpec> init_section;
extern const Section<InputSpec> input_section;
/// The free form of model.placement.
extern const Section<SublayerRule> placement_section;

}  // namespace periscope
