#include "experiments/engine/settings/section.h"

#include <fmt/format.h>

#include "sim/spec/stack_keys.h"

namespace periscope::config {

Json placement_json(const Placement& placement) {
  if (!placement.is_custom()) return placement.name;
  const FreeForm& form = *placement.custom;
  if (form.attention != nullptr) {
    return {{"attention", placement_json(*form.attention)}, {"mlp", placement_json(*form.mlp)}};
  }
  Json json = section_json(placement_section, form.rule);
  if (form.alpha) json["alpha"] = form.alpha->text();
  if (form.beta) json["beta"] = form.beta->text();
  return json;
}

Json layer_placements_json(const ModelSpec& model) {
  Json all = Json::array();
  for (const LayerPlacement& range : model.layer_placements) {
    Json one{{"layers", fmt::format("{}-{}", range.first, range.last)}};
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

}  // namespace periscope::config
