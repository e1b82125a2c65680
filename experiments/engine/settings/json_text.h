#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace periscope::config {

/// Serializes `json` on one line, or with `indent` spaces per level. Bytes that are not valid UTF-8, which arguments
/// and paths may contain, become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Returns `text` with U+FFFD in place of bytes that are not valid UTF-8.
inline std::string valid_utf8(const std::string& text) {
  return nlohmann::ordered_json::parse(json_text(text)).get<std::string>();
}

}  // namespace periscope::config
