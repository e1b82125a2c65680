#include "experiments/engine/settings/parse_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::config {

NumberFormat parse_format(const std::string& word, std::string_view flag, std::span<const NumberFormat> others) {
  std::vector<std::string_view> names;
  for (const std::span<const NumberFormat> formats : {others, std::span<const NumberFormat>(number_formats)}) {
    for (const NumberFormat& f : formats) {
      if (f.name == word) return f;
      names.push_back(f.name);
    }
  }
  throw ConfigError(fmt::format("{} {}: expected one of {}", flag, shortened(word), fmt::join(names, ", ")));
}

}  // namespace periscope::config
