#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace periscope {

/// Placements (T1's table), presets, configuration keys with their defaults, devices, experiments.
std::string list_text();
nlohmann::ordered_json list_json();

}  // namespace periscope
