#include "experiments/engine/settings/section.h"

#include <fmt/format.h>

#include "sim/spec/stack_keys.h"

namespace periscope::config {

nlohmann::ordered_json placement_json(const Placement& placement) {
  if (!placement.is_custom()) return placement.name;
  const FreeForm& form = *placement.custom;
  if (form.attention != nullptr) {
    return {{"attention", placement_json(*form.attention)}, {"mlp", placement_json(*form.mlp)}};
  }
  nlohmann::ordered_json json = section_json(placement_section, form.rule);
  if (form.alpha) json["alpha"] = form.alpha->text();
  if (form.beta) json["beta"] = form.beta->text();
  return json;
}

nlohmann::ordered_json layer_placements_json(const ModelSpec& model) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const LayerPlacement& range : model.layer_placements) {
    nlohmann::ordered_json one{{"layers", fmt::format("{}-{}", range.first, range.last)}};
    if (range.placement) one["placement"] = placement_json(*range.placement);
    const auto word = [&](const char* key, const auto& value, const auto& names) {
      if (value) one[key] = names[static_cast<std::size_t>(*value)];
    };
    word("qk_norm", range.qk_norm, qk_norm_names);
    if (range.v_norm) one["v_norm"] = *range.v_norm;
    word("inner_norm", range.inner_norm, inner_norm_names);
    word("attention_gate", range.attention_gate, attention_gate_names);
    all.push_back(one);
  }
  return all;
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
