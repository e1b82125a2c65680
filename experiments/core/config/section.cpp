#include "experiments/core/config/section.h"

#include "sim/spec/stack_keys.h"

namespace periscope::config {

nlohmann::ordered_json placement_json(const Placement& placement) {
  if (!placement.is_custom()) return placement.name;
  return section_json(placement_section, placement.custom->rule);
}

std::string toml_text(const nlohmann::ordered_json& value) {
  if (value.is_array()) {
    std::string text;
    for (const auto& entry : value) text += (text.empty() ? "" : ", ") + toml_text(entry);
    return "[" + text + "]";
  }
  std::string text = value.dump();
  if (const std::size_t exponent = text.find("e-0"); value.is_number_float() && exponent != std::string::npos) {
    text.erase(exponent + 2, 1);  // 1e-06
  }
  return text;
}

}  // namespace periscope::config
