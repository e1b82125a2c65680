#include "experiments/engine/settings/catalogue.h"

#include <fmt/format.h>

#include "experiments/engine/settings/section.h"
#include "sim/checkpoint/recipe.h"
#include "sim/spec/placement.h"
#include "sim/spec/stack_keys.h"

namespace periscope::config {
namespace {

/// "0.0004", or "0.0004*width" of a family that scales its embedding by the width's root.
std::string second_moment_text(const Family& family) {
  const double at_one = recipe_of(family, recipe_width).second_moment;
  const double at_two = recipe_of(family, 2 * recipe_width).second_moment;
  return at_one == at_two ? fmt::format("{:.4g}", at_one) : fmt::format("{:.4g}*width", at_one / recipe_width);
}

}  // namespace

nlohmann::ordered_json placements_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Placement& p : placement_table()) {
    all.push_back({{"name", p.name},
                   {"norms", p.norms},
                   {"scales", p.scales},
                   {"final_norm", p.defaults.final_norm},
                   {"used_by", p.used_by}});
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> recipe_keys(const Family& family) {
  const Recipe recipe = recipe_of(family, recipe_width);
  const nlohmann::ordered_json model = section_json(model_section, recipe.model);
  std::vector<std::pair<std::string, std::string>> keys;
  for (const char* key :
       {"placement", "qk_norm", "norm", "norm_eps", "mlp", "rope", "causal", "embedding_norm", "final_norm"}) {
    keys.emplace_back(key, model[key].is_string() ? model[key].get<std::string>() : model[key].dump());
  }
  keys.insert(keys.end(), {{"std", fmt::format("{:g}", recipe.init_std)},
                           {"second_moment", second_moment_text(family)},
                           {"residual", std::string(family.init_residual)}});
  return keys;
}

nlohmann::ordered_json recipes_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Family& family : family_table()) {
    nlohmann::ordered_json one{{"name", family.name}};
    for (const auto& [key, value] : recipe_keys(family)) one["sets"][key] = value;
    one["beyond"] = recipe_of(family, recipe_width).beyond;
    all.push_back(one);
  }
  return all;
}

}  // namespace periscope::config
