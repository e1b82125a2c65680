#include "experiments/engine/result/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace periscope::dataset {
namespace {

/// As many values of that type, none of them there.
Values empty(Type type, std::size_t size) {
  const auto filled = [&]<class T>(T value) { return Values(std::vector<T>(size, value)); };
  return type == Type::real      ? filled(missing<double>())
         : type == Type::integer ? filled(missing_integer)
         : type == Type::boolean ? filled(missing_boolean)
                                 : filled(std::string());
}

}  // namespace

Builder::Row Builder::Row::at(std::string_view dimension, std::size_t index) const {
  Row row = *this;
  row.at_.emplace_back(builder_->schema_->dimension(dimension), index);
  return row;
}

void Builder::put(std::size_t column, const std::vector<std::pair<std::size_t, std::size_t>>& at, Values values) {
  const ColumnSpec& spec = schema_->columns()[column];
  if (spec.type == Type::real && std::holds_alternative<std::vector<std::int64_t>>(values)) {
    // A whole number is a real one.
    std::vector<double> reals;
    for (std::size_t i = 0; i < size_of(values); ++i) reals.push_back(number_at(values, i));
    values = std::move(reals);
  }
  if (static_cast<Type>(values.index()) != spec.type) {
    throw std::logic_error(fmt::format("column {}: {} values, declared {}", spec.name,
                                       name_of(static_cast<Type>(values.index())), name_of(spec.type)));
  }
  entries_.push_back({column, at, std::move(values)});
}

void Builder::count(std::string_view dimension, std::size_t length, std::int64_t first) {
  std::vector<std::int64_t> values(length);
  std::iota(values.begin(), values.end(), first);
  put(dimension, values);
}

void Builder::mention(std::string_view column) {
  const std::size_t index = schema_->index_of(column);
  entries_.push_back({index, {}, empty(schema_->columns()[index].type, 0)});
}

std::vector<std::size_t> Builder::lengths() const {
  std::vector<std::size_t> all(schema_->dimensions().size(), 0);
  std::vector<bool> has_coordinate(all.size(), false);
  for (const bool coordinates : {true, false}) {
    for (const Entry& entry : entries_) {
      const ColumnSpec& column = schema_->columns()[entry.column];
      if ((column.dimensions == column.name) != coordinates) continue;
      std::vector<std::size_t> open = schema_->axes_of(entry.column);
      const auto grow = [&](std::size_t dimension, std::size_t length) {
        if (has_coordinate[dimension] && !coordinates) return;
        if (coordinates) has_coordinate[dimension] = true;
        all[dimension] = std::max(all[dimension], length);
      };
      for (const auto& [dimension, index] : entry.at) {
        if (std::erase(open, dimension) > 0) grow(dimension, index + 1);
      }
      if (open.size() == 1) grow(open.front(), size_of(entry.values));
    }
  }
  return all;
}

void Builder::fill(Values& all, const Entry& entry, const std::vector<std::size_t>& length) const {
  const std::vector<std::size_t>& axes = schema_->axes_of(entry.column);
  const auto too_many = [&] {
    throw std::logic_error(
        fmt::format("column {}: {} values are too many", schema_->columns()[entry.column].name, size_of(entry.values)));
  };
  for (std::size_t k = 0; k < size_of(entry.values); ++k) {
    std::size_t rest = k;
    std::size_t flat = 0;
    std::size_t stride = 1;
    for (std::size_t d = axes.size(); d-- > 0;) {
      const auto fixed = std::ranges::find(entry.at, axes[d], &std::pair<std::size_t, std::size_t>::first);
      const std::size_t index = fixed != entry.at.end() ? fixed->second : rest % length[axes[d]];
      if (index >= length[axes[d]]) too_many();
      flat += stride * index;
      if (fixed == entry.at.end()) rest /= length[axes[d]];
      stride *= length[axes[d]];
    }
    if (rest != 0) too_many();
    std::visit([&](auto& into) { into[flat] = std::get<std::remove_reference_t<decltype(into)>>(entry.values)[k]; },
               all);
  }
}

Dataset Builder::finish() const {
  Dataset data;
  const std::vector<std::size_t> length = lengths();
  for (std::size_t d = 0; d < length.size(); ++d) {
    const DimensionSpec& dimension = schema_->dimensions()[d];
    if (length[d] > 0) data.dimensions.push_back({dimension.name, length[d], dimension.free});
  }
  std::vector<std::vector<const Entry*>> by_column(schema_->columns().size());
  for (const Entry& entry : entries_) by_column[entry.column].push_back(&entry);
  for (std::size_t i = 0; i < by_column.size(); ++i) {
    if (by_column[i].empty()) continue;
    std::size_t size = 1;
    for (const std::size_t axis : schema_->axes_of(i)) size *= length[axis];
    if (size == 0) continue;
    const ColumnSpec& spec = schema_->columns()[i];
    Column column{.name = spec.name,
                  .dimensions = spec.axes(),
                  .values = empty(spec.type, size),
                  .units = spec.units,
                  .meaning = spec.meaning,
                  .label = spec.label};
    for (const Entry* entry : by_column[i]) fill(column.values, *entry, length);
    data.columns.push_back(std::move(column));
  }
  std::erase_if(data.dimensions, [&](const Dimension& dimension) {
    const auto uses = [&](const Column& column) {
      return !column.is_coordinate() && std::ranges::find(column.dimensions, dimension.name) != column.dimensions.end();
    };
    if (std::ranges::any_of(data.columns, uses)) return false;
    std::erase_if(data.columns, [&](const Column& column) { return column.name == dimension.name; });
    return true;
  });
  return data;
}

}  // namespace periscope::dataset
