#include "experiments/sweeps/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/error.h"
#include "sim/base/mapped.h"

namespace periscope::sweeps {

using dataset::Column;
using dataset::Dataset;
using dataset::Type;
using dataset::Values;

namespace {

/// Keys whose values are the coordinate of a dimension of results.
constexpr std::pair<std::string_view, std::string_view> dimension_of_key[] = {{"model.placement", "placement"},
                                                                              {"input.kind", "input"}};
/// Maximum number of distinct coordinates of a dimension whose length differs between cells.
constexpr std::size_t most_coordinates = 100'000;

}  // namespace

Coordinate coordinate_at(const Values& values, std::size_t i) {
  return std::visit(
      [i](const auto& list) -> Coordinate {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(list)>, std::vector<std::uint8_t>>) {
          return static_cast<std::int64_t>(list[i]);
        } else {
          return list[i];
        }
      },
      values);
}

Values missing_values(Type type, std::size_t size) {
  switch (type) {
    case Type::real: return std::vector(size, dataset::missing<double>());
    case Type::integer: return std::vector(size, dataset::missing_integer);
    case Type::boolean: return std::vector(size, dataset::missing_boolean);
    case Type::text: break;
  }
  return std::vector<std::string>(size);
}

void set_value(Values& values, std::size_t i, const Coordinate& value) {
  std::visit(
      [&](auto& list) {
        using T = typename std::remove_cvref_t<decltype(list)>::value_type;
        if constexpr (std::is_same_v<T, std::uint8_t>) {
          list[i] = static_cast<std::uint8_t>(std::get<std::int64_t>(value));
        } else {
          list[i] = std::get<T>(value);
        }
      },
      values);
}

Json common_part(const Json& a, const Json& b) {
  if (a == b) return a;
  if (a.is_object() && b.is_object()) {
    Json both = Json::object();
    for (const auto& [key, value] : a.items()) {
      if (!b.contains(key)) continue;
      if (Json part = common_part(value, b[key]); !part.is_null() || value.is_null()) both[key] = part;
    }
    return both;
  }
  if (a.is_array() && b.is_array() && a.size() != b.size() && !a.empty() && !b.empty()) {
    Json all = a[0];  // lists of stacks, one of which remains
    for (const Json* list : {&a, &b}) {
      for (const Json& element : *list) all = common_part(all, element);
    }
    return Json::array({all});
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    Json both = Json::array();
    for (std::size_t i = 0; i < a.size(); ++i) both.push_back(common_part(a[i], b[i]));
    return both;
  }
  return nullptr;
}

const Dataset& LayoutDecoder::decode(const StoredCell& cell) {
  if (layout_ == nullptr || (layout_ != cell.layout && *layout_ != *cell.layout)) {
    empty_ = layout_of(*cell.layout);
    coordinates_ = nullptr;
  }
  layout_ = cell.layout;
  const std::string none;
  const bool is_same = coordinates_ != nullptr && cell.coordinates != nullptr && *coordinates_ == *cell.coordinates;
  if (is_same) return data_;
  data_ = empty_;
  std::vector<Values> values = values_of(cell.coordinates ? *cell.coordinates : none);
  std::size_t next = 0;
  for (Column& column : data_.columns) {
    if (!is_coordinate_or_label(column)) continue;
    if (next == values.size()) throw InputError("a cell lacks coordinates");
    column.values = std::move(values[next++]);
  }
  coordinates_ = cell.coordinates;
  ++version_;
  return data_;
}

CellSurvey::CellSurvey(const dataset::Schema& of_cells) : schema(of_cells), present(of_cells.columns().size()) {
  for (const dataset::DimensionSpec& spec : schema.dimensions()) own.emplace_back().name = spec.name;
}

void CellSurvey::add(const Dataset& data) {
  for (const Column& column : data.columns) present[schema.index_of(column.name)] = true;
  attributes = attributes.is_null() ? data.attributes : common_part(attributes, data.attributes);
  for (OwnDimension& one : own) {
    const auto found = std::ranges::find(data.dimensions, one.name, &dataset::Dimension::name);
    if (found == data.dimensions.end()) continue;
    one.free = one.free || found->free;
    one.is_ragged = one.is_ragged || (one.longest > 0 && one.longest != found->length);
    one.longest = std::max(one.longest, found->length);
    const Column* coordinate = data.find(one.name);
    if (coordinate == nullptr) continue;
    if (!one.coordinate) one.coordinate = coordinate->values;
    one.varies = one.varies || *one.coordinate != coordinate->values;
    if (one.too_many) continue;
    for (std::size_t i = 0; i < found->length; ++i) {
      one.seen.emplace(coordinate_at(coordinate->values, i), one.seen.size());
    }
    one.too_many = one.seen.size() > most_coordinates;
  }
  for (const Column& column : data.columns) {
    if (column.label && column.dimensions.size() == 1) add_label(column, data.find(column.dimensions.front()));
  }
}

void CellSurvey::add_label(const Column& column, const Column* coordinate) {
  SharedLabel& label = labels[column.name];
  for (std::size_t i = 0; i < dataset::size_of(column.values) && !label.differs; ++i) {
    const Coordinate at =
        coordinate == nullptr ? Coordinate(static_cast<std::int64_t>(i)) : coordinate_at(coordinate->values, i);
    const Coordinate value = coordinate_at(column.values, i);
    label.differs = label.values.emplace(at, value).first->second != value || label.values.size() > most_coordinates;
  }
}

void CellSurvey::finish() {
  for (OwnDimension& one : own) {
    if (!one.is_ragged) continue;
    if (one.too_many) {
      throw InputError(
          fmt::format("dimension {}: expected at most {} distinct coordinates if its length differs "
                      "between cells",
                      one.name, most_coordinates));
    }
    for (const auto& item : one.seen) one.all.push_back(item.first);
    const bool is_text = one.coordinate && std::holds_alternative<std::vector<std::string>>(*one.coordinate);
    if (is_text) std::ranges::sort(one.all, {}, [&](const Coordinate& c) { return one.seen.at(c); });
    for (std::size_t i = 0; i < one.all.size(); ++i) one.seen[one.all[i]] = i;
  }
}

void CellSurvey::use_axes(const std::vector<GridAxis>& axes, std::vector<std::string>& names) {
  for (std::size_t a = 0; a < names.size(); ++a) {
    for (const auto& [key, name] : dimension_of_key) {
      const auto one = std::ranges::find(own, name, &OwnDimension::name);
      if (one == own.end() || names[a] != key || one->longest != 1) continue;
      const std::vector<Json>& values = axes[a].keys.front().second;
      const std::set<std::string> distinct = [&] {
        const auto texts = mapped(values, config::plain_text);
        return std::set<std::string>(texts.begin(), texts.end());
      }();
      const bool has_list = std::ranges::any_of(values, [](const Json& v) { return v.is_array(); });
      if (has_list || distinct.size() != values.size()) continue;
      one->axis = a;
      names[a] = one->name;
    }
  }
}

}  // namespace periscope::sweeps
