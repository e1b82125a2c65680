#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace periscope {

/// Parses a decimal integer from `least` to `most`. Returns nullopt for other text, e.g. 010, which could be octal.
std::optional<std::int64_t> parse_integer(std::string_view word, std::int64_t least = 0,
                                          std::int64_t most = std::numeric_limits<int>::max());

/// Returns e.g. "a whole number from 1 to 10".
std::string integer_range_text(std::int64_t least, std::int64_t most);

}  // namespace periscope
