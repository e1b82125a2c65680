#include "experiments/engine/study/flag.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/base/parse_integer.h"
#include "sim/base/printable.h"

namespace periscope::study {

std::int64_t flag_details::integer(const std::string& flag, const std::string& word, const Range& range,
                                   std::int64_t most) {
  const auto least = static_cast<std::int64_t>(std::max(range.low, -2147483647.0));
  if (range.high < static_cast<double>(most)) most = static_cast<std::int64_t>(range.high);
  if (const auto number = parse_integer(word, least, most)) return *number;
  throw ConfigError(fmt::format("{} {}: expected {}", flag, shortened(word), integer_range_text(least, most)));
}

double flag_details::number(const std::string& flag, const std::string& word, const Range& range) {
  double value = 0.0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc() && rest == end && range.contains(value)) return value;
  std::string expected = "a number";
  if (std::isfinite(range.low)) expected += fmt::format("{} {:g}", range.open ? " above" : " from", range.low);
  if (std::isfinite(range.high)) expected += fmt::format(" up to {:g}", range.high);
  throw ConfigError(fmt::format("{} {}: expected {}", flag, shortened(word), expected));
}

}  // namespace periscope::study
