#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/common/config.h"

namespace periscope {

/// True if theory is told another specification than is measured (--theory-set), or carries a planted fault.
bool theory_is_misled(const Config& config);

/// Per stack, every key that theory is told otherwise: {"model.rope": {"measured": true, "told": false}, …}. Empty if
/// it is told the truth.
nlohmann::ordered_json told_differences(const Config& config);

/// {"set": […], "fault": …, "meaning": …, "differences": as told_differences}: for results, where it must not be
/// overlooked.
nlohmann::ordered_json told_json(const Config& config);

/// The same for people, in lines; empty if theory is not misled.
std::string told_lines(const Config& config);

/// Throws ConfigError if a fault is planted that changes nothing in any stack.
void require_fault_acts(const Config& config);

}  // namespace periscope
