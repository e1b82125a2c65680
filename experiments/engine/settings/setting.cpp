#include "experiments/engine/settings/setting.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::config {

std::string key_of_setting(const std::string& setting, std::string_view flag) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError(fmt::format("{0} {1}: expected key=value, as in {0} model.width=256", flag, shortened(setting)));
  }
  const std::string key = setting.substr(0, equals);
  if (key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos) {
    throw ConfigError(
        fmt::format("{} {}: the key has an empty part, expected one as model.width", flag, shortened(setting)));
  }
  if (std::ranges::count(key, '.') >= most_key_parts) {
    throw ConfigError(fmt::format("{} {}: the key has {} parts, expected at most {}", flag, shortened(setting),
                                  std::ranges::count(key, '.') + 1, most_key_parts));
  }
  return key;
}

}  // namespace periscope::config
