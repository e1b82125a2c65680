#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace periscope::config {

/// Returns the text of `json`, on one line or with `indent` spaces per level. Bytes that are not UTF-8, as in arguments
/// and paths, become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Returns `text` with U+FFFD for bytes that are not UTF-8.
inline std::string valid_utf8(const std::string& text) {
  return nlohmann::ordered_json::parse(json_text(text)).get<std::string>();
}

}  // namespace periscope::config
