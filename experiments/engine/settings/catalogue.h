#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace periscope {
struct Family;
}  // namespace periscope

namespace periscope::config {

constexpr int recipe_width = 1024;  ///< width for which recipes are listed

/// Returns the named placements: name, norms, scales, final_norm, used_by.
nlohmann::ordered_json placements_json();

/// Returns the keys that a recipe sets, with their values, but for keys of [model] that it leaves off.
std::vector<std::pair<std::string, std::string>> recipe_keys(const Family& family);

/// Returns, for every model.recipe, the values that it sets, and the properties of its family that no key describes.
nlohmann::ordered_json recipes_json();

}  // namespace periscope::config
