#include "sim/base/error.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace periscope {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

constexpr std::size_t max_compared = 200;  // the cost of a comparison is the product of the two lengths
constexpr std::size_t max_typo_edits = 2;

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> names) {
  word = word.substr(0, max_compared);
  const auto distance = [&](const std::string& name) {
    const std::size_t edits = edit_distance(word, name);
    const bool is_prefix = name.starts_with(word) || word.starts_with(name);  // "prenorm" means "pre", not "deepnorm"
    return std::pair(edits > max_typo_edits && !is_prefix, edits);
  };
  const auto best = std::ranges::min_element(names, {}, distance);
  return best == names.end() ? std::string() : *best;
}

std::string similar_name(std::string_view word, std::span<const std::string> names) {
  if (word.empty()) return "";
  std::string name = nearest(word, names);
  if (name.starts_with(word) || word.starts_with(name)) return name;
  return word.size() <= max_compared && edit_distance(word, name) <= std::min(max_typo_edits, word.size() / 2) ? name
                                                                                                               : "";
}

std::string suggestion(std::string_view word, std::span<const std::string> names, std::string_view prefix) {
  const std::string name = similar_name(word, names);
  return name.empty() ? "" : "; nearest is " + std::string(prefix) + name;
}

}  // namespace periscope
