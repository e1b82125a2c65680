#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/common/schema.h"

namespace periscope {

/// What every kind of result consists of.
std::vector<const Schema*> result_schemas();

/// All their columns, as text and as JSON.
std::string columns_text();
nlohmann::ordered_json columns_json();

}  // namespace periscope
