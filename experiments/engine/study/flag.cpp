#include "experiments/engine/study/flag.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "sim/base/printable.h"
#include "sim/base/whole_number.h"

namespace periscope::study {

int flag_details::whole_number(const std::string& flag, const std::string& word, const Range& range) {
  const auto least = static_cast<std::int64_t>(std::max(range.low, -2147483647.0));
  const auto most = static_cast<std::int64_t>(std::min(range.high, 2147483647.0));
  if (const auto number = parse_whole_number(word, least, most)) return static_cast<int>(*number);
  throw ConfigError(fmt::format("{} {}: expected {}", flag, shortened(word), whole_number_words(least, most)));
}

double flag_details::number(const std::string& flag, const std::string& word, const Range& range) {
  double value = 0.0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc() && rest == end && range.holds(value)) return value;
  std::string wanted = "a number";
  if (std::isfinite(range.low)) wanted += fmt::format("{} {:g}", range.open ? " above" : " from", range.low);
  if (std::isfinite(range.high)) wanted += fmt::format(" up to {:g}", range.high);
  throw ConfigError(fmt::format("{} {}: expected {}", flag, shortened(word), wanted));
}

double bytes_of(const std::string& flag, const std::string& word) {
  constexpr std::string_view units = "KMG";
  double bytes = 0.0;
  const char* const end = word.data() + word.size();
  auto [rest, error] = std::from_chars(word.data(), end, bytes);
  const std::size_t unit = rest == end ? std::string_view::npos : units.find(*rest);
  if (unit != std::string_view::npos) {
    bytes *= std::pow(1024.0, static_cast<double>(unit) + 1.0);
    ++rest;
  }
  if (error != std::errc() || rest != end || !(bytes > 0.0) || !std::isfinite(bytes)) {
    throw ConfigError(fmt::format("{} {}: expected a number of bytes above 0, or one with K, M or G, as in 8G", flag,
                                  shortened(word)));
  }
  return bytes;
}

}  // namespace periscope::study
