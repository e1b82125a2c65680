#include "experiments/engine/result/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace periscope::dataset {

double number_at(const Values& values, std::size_t i) {
  if (is_missing(values, i)) return missing<double>();
  if (const auto* reals = std::get_if<std::vector<double>>(&values)) return (*reals)[i];
  if (const auto* flags = std::get_if<std::vector<std::uint8_t>>(&values)) return (*flags)[i];
  return static_cast<double>(std::get<std::vector<std::int64_t>>(values)[i]);
}

bool is_missing(const Values& values, std::size_t i) {
  if (const auto* reals = std::get_if<std::vector<double>>(&values)) return std::isnan((*reals)[i]);
  return std::visit([i]<class T>(const std::vector<T>& list) { return list[i] == missing<T>(); }, values);
}

std::size_t size_of(const Values& values) {
  return std::visit([](const auto& list) { return list.size(); }, values);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

const Column* Dataset::find(std::string_view name) const {
  const auto it = std::ranges::find(columns, name, &Column::name);
  return it == columns.end() ? nullptr : &*it;
}

std::size_t Dataset::length(std::string_view dimension) const {
  const auto it = std::ranges::find(dimensions, dimension, &Dimension::name);
  if (it == dimensions.end()) throw std::logic_error(fmt::format("no dimension {}", dimension));
  return it->length;
}

}  // namespace periscope::dataset
