#pragma once

#include <nlohmann/json.hpp>

/// JSON descriptions of the program for `periscope list`, the reference and the Python module; machine-independent.
namespace periscope {

/// Returns every section of a configuration file with its keys.
nlohmann::ordered_json sections_json();

/// Returns every study: its question, flags, sections and the keys that affect it.
nlohmann::ordered_json studies_json();

/// Returns, by kind of result, the schema version and the columns with dimensions, units and meaning.
nlohmann::ordered_json results_json();

/// Returns the named placements: name, norms, scales, final_norm, used_by.
nlohmann::ordered_json placements_json();

/// Returns, for every model.recipe, the values that it sets and properties of its family that no key controls.
nlohmann::ordered_json recipes_json();

}  // namespace periscope
