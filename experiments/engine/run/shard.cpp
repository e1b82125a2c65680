#include "experiments/engine/run/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/parse_integer.h"
#include "sim/base/printable.h"

namespace periscope::stacks {

Shard parse_shard(const std::string& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto index = parse_integer(text.substr(0, slash), 1);
  const auto count = parse_integer(text.substr(std::min(slash + 1, text.size())), 1);
  if (!index || !count || *index > *count) {
    throw ConfigError(fmt::format("--shard {}: expected K/N with 1 <= K <= N, such as 3/16", shortened(text)));
  }
  return {static_cast<std::size_t>(*index), static_cast<std::size_t>(*count)};
}

}  // namespace periscope::stacks
