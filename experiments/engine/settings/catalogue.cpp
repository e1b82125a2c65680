#include "experiments/engine/settings/catalogue.h"

#include <fmt/format.h>

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
  const ModelSpec& m = recipe.model;
  const auto flag = [](bool on) { return std::string(on ? "true" : "false"); };
  const auto word = [](const auto& names, auto value) { return std::string(names[static_cast<std::size_t>(value)]); };
  return {{"placement", std::string(m.placement.name)},
          {"qk_norm", word(qk_norm_names, m.qk_norm)},
          {"norm", word(norm_kind_names, m.norm)},
          {"norm_eps", fmt::format("{:g}", m.norm_eps)},
          {"mlp", word(mlp_kind_names, m.mlp)},
          {"rope", flag(m.rope)},
          {"causal", flag(m.causal)},
          {"embedding_norm", flag(m.embedding_norm)},
          {"final_norm", flag(m.final_norm)},
          {"std", fmt::format("{:g}", recipe.init_std)},
          {"second_moment", second_moment_text(family)},
          {"residual", std::string(family.init_residual)}};
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
