#include "sim/base/key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope {
namespace {

std::string limits(const Range& range, std::string_view number) {
  const bool low = std::isfinite(range.low);
  const bool high = std::isfinite(range.high);
  if (low && high) {
    const std::string_view words = range.open ? "{} above {} and below {}" : "{} from {} to {}";
    return fmt::format(fmt::runtime(words), number, range.low, range.high);
  }
  if (low) return fmt::format("{} {} {}", number, range.open ? "above" : "of at least", range.low);
  return std::string(number);
}

/// Returns the expected values in words, e.g. "a whole number from 1 to 10000".
std::string expected(const Range& range, bool whole, bool list) {
  const bool finite = !whole && !(std::isfinite(range.low) && std::isfinite(range.high));
  const std::string_view number = whole ? "whole number" : finite ? "finite number" : "number";
  if (list) return limits(range, fmt::format("a list of {}s", number));
  return (range.or_zero ? "0 (automatic) or " : "") + limits(range, fmt::format("a {}", number));
}

void require(bool holds, std::string_view section, std::string_view key, const std::string& value,
             const std::string& expected) {
  if (!holds) throw ConfigError(fmt::format("{}.{} = {}: expected {}", section, key, value, expected));
}

template <class T>
void require_list(const Range& range, std::string_view section, std::string_view key, const std::vector<T>& values,
                  bool whole) {
  const std::string found = shortened(fmt::format("[{}]", fmt::join(values, ", ")));
  const bool in_range = !values.empty() && std::ranges::all_of(values, [&](T v) { return range.contains(v); });
  require(in_range, section, key, found, expected(range, whole, true));
  std::vector<T> sorted = values;
  std::ranges::sort(sorted);
  const auto duplicate = std::ranges::adjacent_find(sorted);  // rejected, because results are indexed by the value
  if (duplicate != sorted.end()) require(false, section, key, found, fmt::format("{} only once", *duplicate));
}

}  // namespace

bool Range::contains(double value) const {
  if (or_zero && value == 0.0) return true;
  return std::isfinite(value) && (open ? value > low && value < high : value >= low && value <= high);
}

void require_in(const Range& range, std::string_view section, std::string_view key, int value) {
  require(range.contains(value), section, key, fmt::to_string(value), expected(range, true, false));
}

void require_in(const Range& range, std::string_view section, std::string_view key, double value) {
  require(range.contains(value), section, key, fmt::format("{:g}", value), expected(range, false, false));
}

void require_in(const Range& range, std::string_view section, std::string_view key, const std::vector<int>& value) {
  require_list(range, section, key, value, true);
}

void require_in(const Range& range, std::string_view section, std::string_view key, const std::vector<double>& value) {
  require_list(range, section, key, value, false);
}

}  // namespace periscope
