#include "theory/predict/window_pairs.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace periscope::theory {
namespace {

using Windows = std::vector<std::vector<int>>;

void check(const Windows& ids, const Windows& labels) {
  if (ids.empty() || ids.front().empty()) throw std::invalid_argument("a batch needs windows of token ids");
  const std::size_t tokens = ids.front().size();
  const auto other_length = [&](const std::vector<int>& window) { return window.size() != tokens; };
  if (std::ranges::any_of(ids, other_length)) throw std::invalid_argument("windows of a batch have one length");
  if (labels.empty()) return;
  if (labels.size() != ids.size() || std::ranges::any_of(labels, other_length)) {
    throw std::invalid_argument("a batch has a label for every token");
  }
  for (const std::vector<int>& window : labels) {
    if (std::ranges::any_of(window, [](int label) { return label < 0; })) {
      throw std::invalid_argument("a token of a batch has no label");
    }
  }
}

/// Row d holds the pairs of windows i and (i + d) mod B, for every i. The rows 1 … (B − 1)/2, and half of row B/2 if B
/// is even, hold every pair once. If fewer are wanted, these are whole rows at evenly spaced distances, the last one
/// cut short, or, if not even one row is wanted whole, evenly spaced pairs of the middle one.
std::vector<std::pair<std::size_t, std::size_t>> chosen_pairs(std::size_t windows, std::size_t most) {
  const std::size_t count = std::min(most, windows * (windows - 1) / 2);
  const std::size_t whole_rows = (windows - 1) / 2;
  const std::size_t rows = (count + windows - 1) / windows;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t row = k / windows;
    const std::size_t first = count < windows ? k * windows / count : k % windows;
    const std::size_t distance =
        1 + (rows <= whole_rows && count == most ? row * whole_rows / rows + whole_rows / (2 * rows) : row);
    pairs.emplace_back(first, (first + distance) % windows);
  }
  return pairs;
}

std::vector<int> joined(const std::vector<int>& first, const std::vector<int>& second) {
  std::vector<int> both = first;
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

}  // namespace

ChainInputs pairs_of_windows(const Windows& ids, const Windows& labels, std::size_t most) {
  check(ids, labels);
  const std::size_t windows = ids.size();
  ChainInputs pairs{.ids = ids, .labels = labels};
  if (windows == 1) return pairs;
  pairs = {.ids = {},
           .labels = {},
           .sequences = {.count = 2, .of = static_cast<int>(windows)},
           .population = windows * (windows - 1) / 2};
  for (const auto& [first, second] : chosen_pairs(windows, most)) {
    pairs.ids.push_back(joined(ids[first], ids[second]));
    if (!labels.empty()) pairs.labels.push_back(joined(labels[first], labels[second]));
  }
  return pairs;
}

}  // namespace periscope::theory
