#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace periscope {

/// Parses decimal digits, with "-" before them if negative; nullopt if they are no number from `least` to `most`, and
/// for a leading 0, which other readers take for octal.
std::optional<std::int64_t> parse_integer(std::string_view word, std::int64_t least = 0,
                                          std::int64_t most = std::numeric_limits<int>::max());

/// "a whole number from 1 to 10"
std::string integer_range_text(std::int64_t least, std::int64_t most);

}  // namespace periscope
