#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/core/dataset/schema.h"

namespace periscope::app {

/// Placements (T1's table), presets, configuration keys with their defaults, devices, studies and other commands.
std::string list_text();
nlohmann::ordered_json list_json();

/// What every kind of result consists of.
std::vector<const dataset::Schema*> result_schemas();

/// All their columns, as text and as JSON.
std::string columns_text();
nlohmann::ordered_json columns_json();

}  // namespace periscope::app
