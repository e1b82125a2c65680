#include "experiments/engine/settings/block_rules.h"

#include <fmt/format.h>

#include <string>

#include "sim/base/error.h"

namespace periscope::config {

void require_dividing_norms(const std::vector<StackSpec>& stacks, std::string_view why) {
  for (const StackSpec& spec : stacks) {
    const NormKind kind = spec.model.norm;
    if (!is_pointwise(kind)) continue;
    std::string expected;
    for (std::size_t i = 0; i < norm_kind_names.size(); ++i) {
      if (is_pointwise(static_cast<NormKind>(i))) continue;
      expected += fmt::format("{}\"{}\"", expected.empty() ? "" : ", ", norm_kind_names[i]);
    }
    throw ConfigError(fmt::format("model.norm = \"{}\": expected one of {}: {}", facts_of(kind).name, expected, why));
  }
}

bool has_single_additions(const ModelSpec& model) {
  for (int s = 0; s < model.steps(); ++s) {
    if (!model.step(s).is_one_addition()) return false;
  }
  return model.ends().parts_of_stream() == 1;
}

void require_single_additions(const std::vector<StackSpec>& stacks, std::string_view why) {
  for (const StackSpec& spec : stacks) {
    if (has_single_additions(spec.model)) continue;
    throw ConfigError(fmt::format(
        "model.placement = \"{}\": expected a placement of one module at a time on one stream, as \"pre\": {}",
        spec.model.placement.name, why));
  }
}

}  // namespace periscope::config
