#include "experiments/studies/describe.h"

#include <fmt/format.h>

#include "experiments/studies/studies.h"
#include "sim/checkpoint/recipe.h"
#include "sim/spec/placement.h"
#include "sim/spec/stack_keys.h"

namespace periscope {

using nlohmann::ordered_json;

namespace {

constexpr int recipe_width = 1024;  ///< width at which recipe values are listed

/// Returns "0.0004", or "0.0004*width" for a family that scales its embedding by √width.
std::string second_moment_text(const Family& family) {
  const double at_one = recipe_of(family, recipe_width).second_moment;
  const double at_two = recipe_of(family, 2 * recipe_width).second_moment;
  return at_one == at_two ? fmt::format("{:.4g}", at_one) : fmt::format("{:.4g}*width", at_one / recipe_width);
}

/// Returns the values that a recipe sets, as strings.
ordered_json recipe_values(const Family& family) {
  const Recipe recipe = recipe_of(family, recipe_width);
  const ordered_json model = config::section_json(model_section, recipe.model);
  ordered_json values;
  for (const char* key :
       {"placement", "qk_norm", "norm", "norm_eps", "mlp", "rope", "causal", "embedding_norm", "final_norm"}) {
    values[key] = model[key].is_string() ? model[key] : ordered_json(model[key].dump());
  }
  values["std"] = fmt::format("{:g}", recipe.init_std);
  values["second_moment"] = second_moment_text(family);
  values["residual"] = family.init_residual;
  return values;
}

}  // namespace

ordered_json sections_json() {
  ordered_json all;
  for (const config::AnySection& section : sections()) {
    all.push_back({{"name", section.name}, {"keys", section.keys}});
  }
  return all;
}

ordered_json studies_json() {
  ordered_json all;
  for (const study::Study& one : studies()) {
    ordered_json flags = ordered_json::array();
    for (const study::FlagText& flag : one.flags) {
      flags.push_back({{"name", flag.name},
                       {"meaning", flag.meaning},
                       {"default", flag.default_text},
                       {"toggle", flag.toggle},
                       {"list", flag.list},
                       {"number", flag.number},
                       {"positional", flag.positional},
                       {"required", flag.required}});
    }
    std::vector<std::string> own_sections;
    for (const config::AnySection& section : one.sections) own_sections.push_back(section.name);
    ordered_json common{{"config", !one.without.contains("config")}};
    for (const auto& flag : study::run_flags()) common[flag.name] = !one.without.contains(flag.name);
    common["force"] = !one.without.contains("force");
    all.push_back({{"name", one.name},
                   {"question", one.question},
                   {"example", one.example},
                   {"configuration", one.configuration},
                   {"effective_keys", study::effective_keys(one)},
                   {"sections", own_sections},
                   {"flags", flags},
                   {"result", one.schema != nullptr ? ordered_json(one.schema->kind()) : ordered_json()},
                   {"compares", one.compares},
                   {"common", common}});
  }
  return all;
}

ordered_json results_json() {
  ordered_json all;
  for (const study::Study& one : studies()) {
    if (one.schema == nullptr || all.contains(one.schema->kind())) continue;
    ordered_json columns;
    for (const dataset::ColumnSpec& c : one.schema->columns()) {
      columns.push_back({{"name", c.name},
                         {"dimensions", c.axes()},
                         {"type", name_of(c.type)},
                         {"units", c.units},
                         {"meaning", c.meaning}});
    }
    all[one.schema->kind()] = {{"version", one.schema->version()}, {"columns", columns}};
  }
  return all;
}

ordered_json placements_json() {
  ordered_json all = ordered_json::array();
  for (const Placement& p : placement_table()) {
    all.push_back({{"name", p.name},
                   {"norms", p.norms},
                   {"scales", p.scales},
                   {"final_norm", p.defaults.final_norm},
                   {"used_by", p.used_by}});
  }
  return all;
}

ordered_json recipes_json() {
  ordered_json all = ordered_json::array();
  for (const Family& family : family_table()) {
    all.push_back(
        {{"name", family.name}, {"sets", recipe_values(family)}, {"extras", recipe_of(family, recipe_width).extras}});
  }
  return all;
}

}  // namespace periscope
