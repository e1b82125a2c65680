#include "experiments/core/config/norm_kinds.h"

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

}  // namespace periscope::config
