#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/app/tools/list.h"
#include "experiments/core/config/section.h"
#include "sim/checkpoint/recipe.h"
#include "sim/spec/stack_keys.h"

namespace periscope::app {
namespace {

constexpr int one_width = 1024;

/// "0.0004", or "0.0004*width" of a family that scales its embedding by the width's root.
std::string second_moment_text(const Family& family) {
  const double at_one = recipe_of(family, one_width).second_moment;
  const double at_two = recipe_of(family, 2 * one_width).second_moment;
  return at_one == at_two ? fmt::format("{:.4g}", at_one) : fmt::format("{:.4g}*width", at_one / one_width);
}

/// The keys that a recipe sets and their values, all of [model] but those that are off as usual.
std::vector<std::pair<std::string, std::string>> set_by(const Family& family) {
  const Recipe recipe = recipe_of(family, one_width);
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
          {"second_moment", second_moment_text(family)}};
}

}  // namespace

std::string recipes_text() {
  std::string text =
      "Recipes: model.recipe sets these keys of [model], init.std, input.second_moment; given keys win\n"
      "  second_moment: of embeddings that are drawn with std; it follows an init.std that is given\n"
      "  embed, final: whether there is a norm of the embedding, and one at the end\n";
  text += fmt::format("  {:<8} {:<9} {:<7} {:<5} {:<8} {:<10} {:<5} {:<6} {:<5} {:<5} {:<4} {}\n", "name", "placement",
                      "qk_norm", "norm", "norm_eps", "mlp", "rope", "causal", "embed", "final", "std", "second_moment");
  for (const Family& family : family_table()) {
    const auto keys = set_by(family);
    const auto at = [&](std::size_t i) { return keys[i].second; };
    text += fmt::format("  {:<8} {:<9} {:<7} {:<5} {:<8} {:<10} {:<5} {:<6} {:<5} {:<5} {:<4} {}\n", family.name, at(0),
                        at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), at(10));
  }
  text += "  not in a recipe, as no key says it:\n";
  for (const Family& family : family_table()) {
    const Recipe recipe = recipe_of(family, one_width);
    for (std::size_t i = 0; i < recipe.beyond.size(); ++i) {
      text += fmt::format("  {:<8} {}\n", i == 0 ? family.name : "", recipe.beyond[i]);
    }
  }
  return text;
}

nlohmann::ordered_json recipes_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Family& family : family_table()) {
    nlohmann::ordered_json one{{"name", family.name}};
    for (const auto& [key, value] : set_by(family)) one["sets"][key] = value;
    one["beyond"] = recipe_of(family, one_width).beyond;
    all.push_back(one);
  }
  return all;
}

}  // namespace periscope::app
