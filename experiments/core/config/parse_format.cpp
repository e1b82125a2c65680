#include "experiments/core/config/parse_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::config {

NumberFormat parse_format(const std::string& word, std::string_view flag) {
  const auto* at = std::ranges::find(number_formats, word, &NumberFormat::name);
  if (at != number_formats.end()) return *at;
  std::vector<std::string_view> names;
  for (const NumberFormat& f : number_formats) names.push_back(f.name);
  throw ConfigError(fmt::format("{} {}: expected one of {}", flag, shortened(word), fmt::join(names, ", ")));
}

}  // namespace periscope::config
