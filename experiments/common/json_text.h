#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace periscope {

/// The text of `json`, on one line or with `indent` spaces per level. JSON is UTF-8, but arguments and paths of files
/// are any bytes: those that are no UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// `text` with U+FFFD for the bytes that are no UTF-8, as json_text has them.
std::string valid_utf8(const std::string& text);

}  // namespace periscope
