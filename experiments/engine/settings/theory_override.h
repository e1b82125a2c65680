#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "experiments/engine/settings/config.h"

namespace periscope::config {

/// A mistake planted in theory: its key, as theory.fault, its name and its meaning. No key: none is planted.
struct PlantedFault {
  std::string_view key = {}, name = {}, meaning = {};
};

/// Returns theory.fault, or `own`, a study's own fault, if that is planted.
PlantedFault planted_fault(const Config& config, const PlantedFault& own = {});

/// Returns, per stack, every key that --theory-set overrides: {"model.rope": {"measured": true, "assumed": false}, …}.
/// Empty if it overrides nothing. for_hash as in resolved_json.
Json override_differences(const Config& config, bool for_hash = false);

/// Returns {"set": […], "fault": …, "meaning": …, "differences": override_differences}, or null without --theory-set
/// and a planted fault.
Json override_json(const Config& config, const PlantedFault& own = {});

/// Returns the contents of override_json as lines for people.
std::string override_lines(const Config& config, const PlantedFault& own = {});

/// Throws ConfigError if a planted fault changes nothing in any stack.
void require_effective_fault(const Config& config);

/// Throws ConfigError if the stacks differ in a key that the study itself sweeps, by the values of the key `by`, or if
/// --theory-set overrides it.
void require_swept_is_one_value(const Config& config, std::string_view key, std::string_view by,
                                const std::function<double(const StackSpec&)>& value);

}  // namespace periscope::config
