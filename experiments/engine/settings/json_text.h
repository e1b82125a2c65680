#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace periscope::config {

/// The text of `json`, on one line or with `indent` spaces per level. JSON is UTF-8, but arguments and paths of files
/// are any bytes: those that are no UTF-8 become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// `text` with U+FFFD for the bytes that are no UTF-8, as json_text has them.
inline std::string valid_utf8(const std::string& text) {
  return nlohmann::ordered_json::parse(json_text(text)).get<std::string>();
}

}  // namespace periscope::config
