#include "experiments/engine/result/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "sim/base/enumerators.h"

namespace periscope::dataset {

std::string_view name_of(Type type) {
  constexpr std::array<std::string_view, 4> names{"real", "integer", "boolean", "text"};
  static_assert(are_names_of<Type>(names) && std::variant_size_v<Values> == names.size());
  return names[static_cast<std::size_t>(type)];
}

double number_at(const Values& values, std::size_t i) {
  if (is_missing(values, i)) return std::numeric_limits<double>::quiet_NaN();
  if (const auto* reals = std::get_if<std::vector<double>>(&values)) return (*reals)[i];
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&values)) {
    return static_cast<double>((*integers)[i]);
  }
  return static_cast<double>(std::get<std::vector<std::uint8_t>>(values)[i]);
}

bool is_missing(const Values& values, std::size_t i) {
  if (const auto* reals = std::get_if<std::vector<double>>(&values)) return std::isnan((*reals)[i]);
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&values)) return (*integers)[i] == missing_integer;
  if (const auto* flags = std::get_if<std::vector<std::uint8_t>>(&values)) return (*flags)[i] == missing_boolean;
  return std::get<std::vector<std::string>>(values)[i].empty();
}

std::size_t size_of(const Values& values) {
  return std::visit([](const auto& list) { return list.size(); }, values);
}

const Fact* find(const Facts& facts, std::string_view name) {
  const auto it = std::ranges::find(facts, name, &Facts::value_type::first);
  return it == facts.end() ? nullptr : &it->second;
}

void set(Facts& facts, std::string_view name, Fact value) {
  const auto it = std::ranges::find(facts, name, &Facts::value_type::first);
  if (it == facts.end()) {
    facts.emplace_back(name, std::move(value));
  } else {
    it->second = std::move(value);
  }
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
