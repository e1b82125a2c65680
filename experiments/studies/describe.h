#pragma once

#include <nlohmann/json.hpp>

/// What the program offers, for lists, for the reference and for the Python module. Each is the same on every machine.
namespace periscope {

/// Every section of a configuration file, with its keys.
nlohmann::ordered_json sections_json();

/// Every study: its question, flags, sections and the keys that act.
nlohmann::ordered_json studies_json();

/// Every kind of result, by its name: its version, and its columns with dimensions, units and meaning.
nlohmann::ordered_json results_json();

/// The named placements: name, norms, scales, final_norm, used_by.
nlohmann::ordered_json placements_json();

/// For every model.recipe, the values that it sets, and the properties of its family that no key describes.
nlohmann::ordered_json recipes_json();

}  // namespace periscope
