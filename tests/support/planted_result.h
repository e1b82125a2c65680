#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "experiments/engine/result/words.h"
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
  std::vector<double> numbers;
  for (std::size_t i = 0; i < dataset::size_of(variable->values); ++i) {
    numbers.push_back(dataset::number_at(variable->values, i));
  }
  return numbers;
}
/// The numbers of a variable at these positions on some of its dimensions, row-major on the others.
inline std::vector<double> numbers_at(const dataset::Dataset& file, const std::string& name,
                                      const std::vector<std::pair<std::string, std::size_t>>& fixed) {
  const std::vector<double> all = numbers_of(file, name);
  const std::vector<std::string>& dimensions = file.find(name)->dimensions;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::size_t rest = i;
    bool here = true;
    for (std::size_t d = dimensions.size(); d-- > 0;) {
      const std::size_t length = file.length(dimensions[d]);
      for (const auto& at : fixed) here = here && (at.first != dimensions[d] || at.second == rest % length);
      rest /= length;
    }
    if (here) numbers.push_back(all[i]);
  }
  return numbers;
}
inline std::vector<std::string> texts_of(const dataset::Dataset& file, const std::string& name) {
  const dataset::Column* variable = file.find(name);
  REQUIRE_MESSAGE(variable != nullptr, name);
  return std::get<std::vector<std::string>>(variable->values);
}

/// The words of the line of a table that begins with these words.
inline std::vector<std::string> table_row(const std::string& text, const std::vector<std::string>& first) {
  for (const std::string& line : dataset::words_of(text, '\n')) {
    std::vector<std::string> words;
    for (const std::string& word : dataset::words_of(line)) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() >= first.size() && std::equal(first.begin(), first.end(), words.begin())) return words;
  }
  FAIL("no line begins with ", first.front());
  return {};
}

}  // namespace periscope::testing
