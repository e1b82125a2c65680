#pragma once

#include <cstddef>
#include <string>

namespace periscope::stacks {

/// Part `index` (from 1) of `count` parts of a list: the entries index - 1, index - 1 + count, …
struct Shard {
  std::size_t index = 1, count = 1;

  [[nodiscard]] bool contains(std::size_t entry) const { return entry % count == index - 1; }
};

/// Parses "3/16". Throws ConfigError.
Shard parse_shard(const std::string& text);

}  // namespace periscope::stacks
