#include "experiments/common/json_text.h"

namespace periscope {

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string valid_utf8(const std::string& text) {
  return nlohmann::ordered_json::parse(json_text(text)).get<std::string>();
}

}  // namespace periscope
