#include <fmt/format.h>

#include "experiments/app/tools/list.h"
#include "experiments/engine/settings/catalogue.h"
#include "sim/checkpoint/recipe.h"

namespace periscope::app {

std::string recipes_text() {
  std::string text =
      "Recipes: model.recipe sets these keys of [model], [init] and [input]; given keys win\n"
      "  second_moment: of embeddings that are drawn with std; it follows an init.std that is given\n"
      "  embed, final: whether there is a norm of the embedding, and one at the end\n";
  text += fmt::format("  {:<8} {:<9} {:<7} {:<5} {:<8} {:<10} {:<5} {:<6} {:<5} {:<5} {:<4} {}\n", "name", "placement",
                      "qk_norm", "norm", "norm_eps", "mlp", "rope", "causal", "embed", "final", "std", "second_moment");
  for (const Family& family : family_table()) {
    const auto keys = config::recipe_keys(family);
    const auto at = [&](std::size_t i) { return keys[i].second; };
    text += fmt::format("  {:<8} {:<9} {:<7} {:<5} {:<8} {:<10} {:<5} {:<6} {:<5} {:<5} {:<4} {}\n", family.name, at(0),
                        at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), at(10));
  }
  text += "  init.residual, on the standard deviation of W_o and W_down, where it is not 1:\n";
  for (const Family& family : family_table()) {
    if (family.init_residual != "1") text += fmt::format("  {:<8} {}\n", family.name, family.init_residual);
  }
  text += "  not in a recipe, as no key says it:\n";
  for (const Family& family : family_table()) {
    const std::vector<std::string> beyond = recipe_of(family, config::recipe_width).beyond;
    for (std::size_t i = 0; i < beyond.size(); ++i) {
      text += fmt::format("  {:<8} {}\n", i == 0 ? family.name : "", beyond[i]);
    }
  }
  return text;
}

}  // namespace periscope::app
