#include "experiments/engine/study/flag.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "experiments/engine/result/words.h"
#include "sim/base/printable.h"

namespace periscope::study::flag_details {

int whole_number(const std::string& flag, const std::string& word, const Range& range) {
  const double least = std::max(range.low, -2147483647.0);
  const double most = std::min(range.high, 2147483647.0);
  std::int64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  const bool holds =
      error == std::errc() && rest == end && static_cast<double>(value) >= least && static_cast<double>(value) <= most;
  // 010 is octal to some.
  if (!holds || (word.starts_with("0") && word != "0")) {
    throw ConfigError(
        fmt::format("{} {}: expected a whole number from {:.0f} to {:.0f}", flag, shortened(word), least, most));
  }
  return static_cast<int>(value);
}

double number(const std::string& flag, const std::string& word, const Range& range) {
  double value = 0.0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value) || !range.holds(value)) {
    std::string wanted = "a number";
    if (std::isfinite(range.low)) wanted += fmt::format("{} {:g}", range.open ? " above" : " from", range.low);
    if (std::isfinite(range.high)) wanted += fmt::format(" up to {:g}", range.high);
    throw ConfigError(fmt::format("{} {}: expected {}", flag, shortened(word), wanted));
  }
  return value;
}

std::vector<std::string> split(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) std::ranges::move(dataset::words_of(word, ','), std::back_inserter(all));
  return all;
}

std::string text_of(double value) { return fmt::format("{:.15g}", value); }

}  // namespace periscope::study::flag_details
