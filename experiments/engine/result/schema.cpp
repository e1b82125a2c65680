#include "experiments/engine/result/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace periscope::dataset {

std::vector<std::string> ColumnSpec::axes() const { return split(dimensions); }

Schema::Schema(std::string kind, int version, std::vector<DimensionSpec> dimensions, std::vector<ColumnSpec> columns)
    : kind_(std::move(kind)), version_(version), dimensions_(std::move(dimensions)) {
  for (const DimensionSpec& d : dimensions_) {
    if (d.meaning.empty()) continue;
    columns_.push_back({.name = d.name, .dimensions = d.name, .units = d.units, .meaning = d.meaning, .type = d.type});
  }
  std::ranges::move(columns, std::back_inserter(columns_));
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    ColumnSpec& c = columns_[i];
    const auto wrong = [&](std::string_view reason) {
      throw std::logic_error(fmt::format("result {}, column {}: {}", kind_, c.name, reason));
    };
    if (!index_.emplace(c.name, i).second) wrong("declared twice");
    if (c.meaning.empty()) wrong("no meaning");
    if ((c.type == Type::text) != c.units.empty()) wrong("expected units for numbers and flags, but not for text");
    if (c.units == "nat" || c.units == "nat2" || c.units == "dB") {  // dimensionless, unknown to UDUNITS
      c.meaning += ", in " + (c.units == "nat2" ? "nat²" : c.units);
      c.units = "1";
    }
    axes_.emplace_back();
    for (const std::string& name : c.axes()) axes_.back().push_back(dimension(name));
  }
}

std::size_t Schema::index_of(std::string_view column) const {
  const auto it = index_.find(std::string(column));
  if (it == index_.end()) throw std::logic_error(fmt::format("result {}: no column {}", kind_, column));
  return it->second;
}

std::size_t Schema::dimension(std::string_view name) const {
  const auto at = std::ranges::find(dimensions_, name, &DimensionSpec::name);
  if (at == dimensions_.end()) throw std::logic_error(fmt::format("result {}: no dimension {}", kind_, name));
  return static_cast<std::size_t>(at - dimensions_.begin());
}

Builder::Row Builder::Row::at(std::string_view dimension, std::size_t index) const {
  Row row = *this;
  row.at_.emplace_back(builder_->schema_->dimension(dimension), index);
  return row;
}

void Builder::put(std::string_view column, const Position& at, Values values) {
  const std::size_t index = schema_->index_of(column);
  const Type declared = schema_->columns()[index].type;
  if (declared == Type::real && std::holds_alternative<std::vector<std::int64_t>>(values)) {
    std::vector<double> reals;
    for (std::size_t i = 0; i < size_of(values); ++i) reals.push_back(number_at(values, i));
    values = std::move(reals);
  }
  if (const auto type = static_cast<Type>(values.index()); type != declared) {
    throw std::logic_error(
        fmt::format("column {}: expected {} values, found {}", column, name_of(declared), name_of(type)));
  }
  entries_.push_back({index, at, std::move(values)});
}

void Builder::count(std::string_view dimension, std::size_t length, std::int64_t first) {
  std::vector<std::int64_t> values(length);
  std::iota(values.begin(), values.end(), first);
  put(dimension, values);
}

std::vector<std::size_t> Builder::lengths() const {
  std::vector<std::size_t> of_coordinates(schema_->dimensions().size(), 0);
  std::vector<std::size_t> of_values = of_coordinates;
  for (const Entry& entry : entries_) {
    const ColumnSpec& column = schema_->columns()[entry.column];
    std::vector<std::size_t>& lengths = column.dimensions == column.name ? of_coordinates : of_values;
    std::vector<std::size_t> open = schema_->axes_of(entry.column);
    for (const auto& [dimension, index] : entry.at) {
      if (std::erase(open, dimension) > 0) lengths[dimension] = std::max(lengths[dimension], index + 1);
    }
    if (open.size() == 1) lengths[open.front()] = std::max(lengths[open.front()], size_of(entry.values));
  }
  for (std::size_t d = 0; d < of_values.size(); ++d) {
    if (of_coordinates[d] > 0) of_values[d] = of_coordinates[d];
  }
  return of_values;
}

void Builder::fill(Values& all, const Entry& entry, const std::vector<std::size_t>& length) const {
  const std::vector<std::size_t>& axes = schema_->axes_of(entry.column);
  for (std::size_t k = 0; k < size_of(entry.values); ++k) {
    std::size_t rest = k;
    std::size_t flat = 0;
    std::size_t stride = 1;
    bool fits = true;
    for (std::size_t a = axes.size(); a-- > 0;) {
      const std::size_t axis = axes[a];
      const auto fixed = std::ranges::find(entry.at, axis, &Position::value_type::first);
      const bool open = fixed == entry.at.end();
      const std::size_t index = open ? rest % length[axis] : fixed->second;
      fits = fits && index < length[axis];
      if (open) rest /= length[axis];
      flat += stride * index;
      stride *= length[axis];
    }
    if (!fits || rest != 0) {
      throw std::logic_error(fmt::format("column {}: {} values do not fit its dimensions",
                                         schema_->columns()[entry.column].name, size_of(entry.values)));
    }
    std::visit([&](auto& into) { into[flat] = std::get<std::remove_reference_t<decltype(into)>>(entry.values)[k]; },
               all);
  }
}

Dataset Builder::finish() const {
  Dataset data;
  const std::vector<std::size_t> length = lengths();
  std::vector<std::vector<const Entry*>> by_column(schema_->columns().size());
  for (const Entry& entry : entries_) by_column[entry.column].push_back(&entry);
  for (std::size_t i = 0; i < by_column.size(); ++i) {
    std::size_t size = by_column[i].empty() ? 0 : 1;
    for (const std::size_t axis : schema_->axes_of(i)) size *= length[axis];
    if (size == 0) continue;
    const ColumnSpec& spec = schema_->columns()[i];
    Values values =
        std::visit([size]<class T>(const std::vector<T>&) -> Values { return std::vector<T>(size, missing<T>()); },
                   by_column[i].front()->values);
    for (const Entry* entry : by_column[i]) fill(values, *entry, length);
    data.columns.push_back({spec.name, spec.axes(), std::move(values), spec.units, spec.meaning, spec.label});
  }
  for (std::size_t d = 0; d < length.size(); ++d) {
    const DimensionSpec& dimension = schema_->dimensions()[d];
    const auto is_on = [&](const Column& column) {
      return !column.is_coordinate() && std::ranges::find(column.dimensions, dimension.name) != column.dimensions.end();
    };
    if (std::ranges::any_of(data.columns, is_on)) {
      data.dimensions.push_back({dimension.name, length[d], dimension.free});
    } else {
      std::erase_if(data.columns, [&](const Column& column) { return column.name == dimension.name; });
    }
  }
  return data;
}

}  // namespace periscope::dataset
