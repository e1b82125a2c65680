#include "experiments/engine/study/flag.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "experiments/engine/result/dataset.h"
#include "sim/base/printable.h"
#include "sim/base/whole_number.h"

namespace periscope::study::flag_details {

void take(const std::string& /*flag*/, const Words& /*words*/, const Range& /*range*/, bool& value) { value = true; }

void take(const std::string& flag, const Words& words, const Range& range, int& value) {
  const auto least = static_cast<std::int64_t>(std::max(range.low, -2147483647.0));
  const auto most = static_cast<std::int64_t>(std::min(range.high, 2147483647.0));
  const auto number = parse_whole_number(words.back(), least, most);
  if (!number) {
    throw ConfigError(
        fmt::format("{} {}: expected {}", flag, shortened(words.back()), whole_number_words(least, most)));
  }
  value = static_cast<int>(*number);
}

void take(const std::string& flag, const Words& words, const Range& range, double& value) {
  const std::string& word = words.back();
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc() && rest == end && range.holds(value)) return;
  std::string wanted = "a number";
  if (std::isfinite(range.low)) wanted += fmt::format("{} {:g}", range.open ? " above" : " from", range.low);
  if (std::isfinite(range.high)) wanted += fmt::format(" up to {:g}", range.high);
  throw ConfigError(fmt::format("{} {}: expected {}", flag, shortened(word), wanted));
}

void take(const std::string& /*flag*/, const Words& words, const Range& /*range*/, std::string& value) {
  value = words.back();
}

void take(const std::string& /*flag*/, const Words& words, const Range& /*range*/, Words& value) {
  value.clear();
  for (const std::string& word : words) std::ranges::move(dataset::words_of(word, ','), std::back_inserter(value));
}

}  // namespace periscope::study::flag_details

namespace periscope::study {

double bytes_of(const std::string& flag, const std::string& word) {
  constexpr std::string_view units = "KMG";
  double bytes = 0.0;
  const char* const end = word.data() + word.size();
  auto [rest, error] = std::from_chars(word.data(), end, bytes);
  if (error == std::errc() && rest != end) {
    const std::size_t unit = units.find(*rest);
    if (unit != std::string_view::npos) {
      bytes *= std::pow(1024.0, static_cast<double>(unit) + 1.0);
      ++rest;
    }
  }
  if (error != std::errc() || rest != end || !(bytes > 0.0) || !std::isfinite(bytes)) {
    throw ConfigError(fmt::format("{} {}: expected a number of bytes above 0, or one with K, M or G, as in 8G", flag,
                                  shortened(word)));
  }
  return bytes;
}

}  // namespace periscope::study
