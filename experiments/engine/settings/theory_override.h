#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "experiments/engine/settings/config.h"

namespace periscope::config {

/// A deliberate error in the theory: its key (such as theory.fault), name and meaning. An empty key means no fault.
struct PlantedFault {
  std::string_view key = {}, name = {}, meaning = {};
};

/// Returns `own`, the study's own fault, if it has a key, else the fault that theory.fault selects.
PlantedFault planted_fault(const Config& config, const PlantedFault& own = {});

/// Returns the overridden keys of every stack: {"model.rope": {"measured": true, "assumed": false}, …}. Empty without
/// --theory-set. `for_hash` as in resolved_json.
Json override_differences(const Config& config, bool for_hash = false);

/// Returns {"set": […], "fault": …, "meaning": …, "differences": override_differences}, or null if there is neither an
/// override nor a planted fault.
Json override_json(const Config& config, const PlantedFault& own = {});

/// Returns the overrides and the planted fault as lines for a report.
std::string override_lines(const Config& config, const PlantedFault& own = {});

/// Throws ConfigError if a planted fault changes nothing in any stack.
void require_effective_fault(const Config& config);

/// Throws ConfigError if the stacks differ in `key` or --theory-set changes it. The study itself sweeps `key` over the
/// values of the key `by`.
void require_swept_is_one_value(const Config& config, std::string_view key, std::string_view by,
                                const std::function<double(const StackSpec&)>& value);

}  // namespace periscope::config
