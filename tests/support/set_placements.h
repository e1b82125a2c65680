#pragma once

#include <initializer_list>

#include "experiments/engine/settings/config.h"

namespace periscope::testing {

/// Replaces the variants of `config` by its base stack with each placement and its default norms.
inline void set_placements(config::Config& config, std::initializer_list<const char*> names) {
  config.variants.clear();
  for (const char* name : names) {
    StackSpec& spec = config.variants.emplace_back(config.base);
    spec.model.placement = *find_placement(name);
    take_defaults(spec.model.placement, spec.model);
  }
  config.base = config.variants.front();
  if (names.size() == 1) config.variants.clear();
}

}  // namespace periscope::testing
