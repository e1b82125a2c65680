#include "sim/base/parse_integer.h"

#include <fmt/format.h>

#include <charconv>

namespace periscope {

std::optional<std::int64_t> parse_integer(std::string_view word, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  if (!is_number || value < least || value > most || (word.starts_with("0") && word != "0")) return std::nullopt;
  return value;
}

std::string integer_range_text(std::int64_t least, std::int64_t most) {
  return fmt::format("a whole number from {} to {}", least, most);
}

}  // namespace periscope
