#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "experiments/app/netcdf_file.h"
#include "experiments/core/dataset/schema.h"
#include "tests/support/doctest.h"

/// Tools for tests that plant numbers in a result and look for them in its columns: every planted number occurs once,
/// so that a column of another name, another record or another layer is seen.
namespace periscope::testing {

/// 1, 2, 3 …: numbers that are never the same.
class Planted {
 public:
  std::vector<double> take(std::size_t count) {
    std::vector<double> numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(next_ += 1.0);
    return numbers;
  }

 private:
  double next_ = 0.0;
};

/// Appends the numbers of nested lists; null is NaN.
inline void append_numbers(const nlohmann::ordered_json& json, std::vector<double>& numbers) {
  if (json.is_array()) {
    for (const auto& element : json) append_numbers(element, numbers);
  } else {
    numbers.push_back(json.is_number()    ? json.get<double>()
                      : json.is_boolean() ? static_cast<double>(json.get<bool>())
                                          : std::numeric_limits<double>::quiet_NaN());
  }
}

/// The numbers at a column's path in JSON: "[d]" is the element of d's index, the element itself where d has none here,
/// and "{d}" the key `label`. Empty where there is no such key.
inline std::vector<double> values_at(const nlohmann::ordered_json& json, std::string_view path,
                                     const std::vector<std::pair<std::string, std::size_t>>& indices,
                                     std::string_view label = {}) {
  const nlohmann::ordered_json* at = &json;
  for (const std::string& word : words_of(path, '/')) {
    if (word.front() == '[') {
      for (const auto& [dimension, index] : indices) {
        if (word == "[" + dimension + "]") at = &at->at(index);
      }
      continue;
    }
    const std::string key = word.front() == '{' ? std::string(label) : word;
    if (!at->is_object() || !at->contains(key)) return {};
    at = &(*at)[key];
  }
  std::vector<double> numbers;
  append_numbers(*at, numbers);
  return numbers;
}

/// Fails for another length, and at the first number that is another: by more than the last digits, in which the order
/// of a sum may show. Planted numbers, up to 1e6, differ by far more.
inline void check_values(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool both_missing = !std::isfinite(found[i]) && !std::isfinite(expected[i]);
    const bool same = std::abs(found[i] - expected[i]) <= 1e-12 * std::abs(expected[i]);
    INFO("entry ", i, ": found ", found[i], ", planted ", expected[i]);
    if (!both_missing && !same) FAIL_CHECK("another number than was planted");
    if (!both_missing && !same) return;
  }
}

/// A variable of a file.
inline std::vector<double> numbers_of(const dataset::Dataset& file, const std::string& name) {
  const dataset::Column* variable = file.find(name);
  REQUIRE_MESSAGE(variable != nullptr, name);
  return std::get<std::vector<double>>(variable->values);
}
inline std::vector<std::string> texts_of(const dataset::Dataset& file, const std::string& name) {
  const dataset::Column* variable = file.find(name);
  REQUIRE_MESSAGE(variable != nullptr, name);
  return std::get<std::vector<std::string>>(variable->values);
}

/// The words of the line of a table that begins with these words.
inline std::vector<std::string> table_row(const std::string& text, const std::vector<std::string>& first) {
  for (const std::string& line : words_of(text, '\n')) {
    std::vector<std::string> words;
    for (const std::string& word : words_of(line)) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() >= first.size() && std::equal(first.begin(), first.end(), words.begin())) return words;
  }
  FAIL("no line begins with ", first.front());
  return {};
}

}  // namespace periscope::testing
