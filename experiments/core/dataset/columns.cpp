#include "experiments/core/dataset/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "experiments/core/config/json_text.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

/// Arrays nested by the lengths from `level` on.
Json nested(const Json& values, const std::vector<std::size_t>& shape, std::size_t level, std::size_t& next) {
  if (level == shape.size()) return values[next++];
  Json array = Json::array();
  for (std::size_t i = 0; i < shape[level]; ++i) array.push_back(nested(values, shape, level + 1, next));
  return array;
}

double number_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  return value.is_null() ? std::nan("") : value.get<double>();
}

void add_fact(dataset::Facts& facts, const std::string& name, const Json& value) {
  if (value.is_number_integer()) {
    dataset::set(facts, name, value.get<std::int64_t>());
  } else if (value.is_number()) {
    dataset::set(facts, name, value.get<double>());
  } else {
    dataset::set(facts, name, value.is_string() ? value.get<std::string>() : json_text(value));
  }
}

template <class Steps>
auto find_step(const Steps& steps, std::string_view dimension) {
  return std::ranges::find_if(steps, [=](const auto& s) { return s.dimension == dimension; });
}

}  // namespace

Columns::Columns(const Schema& schema, Json origin) : schema_(&schema), origin_(std::move(origin)) {
  origin_["result"] = schema.kind();
  origin_["result_version"] = schema.version();
}

Columns::Row Columns::Row::at(std::string dimension, std::size_t index, std::string_view label) const {
  Row row = *this;
  row.steps_.push_back({std::move(dimension), index, std::string(label)});
  return row;
}

Columns::Row Columns::Row::for_files() const {
  Row row = *this;
  row.json_ = false;
  return row;
}

Columns::Row Columns::Row::for_json() const {
  Row row = *this;
  row.files_ = false;
  return row;
}

void Columns::Row::put(std::string_view column, Json values) const {
  columns_->entries_.push_back({columns_->schema_->index_of(column), steps_, std::move(values), files_, json_});
}

void Columns::count(std::string_view dimension, std::size_t length, int first) {
  std::vector<int> values(length);
  std::iota(values.begin(), values.end(), first);
  put(dimension, values);
}

void Columns::mention(std::string_view column) {
  entries_.push_back({schema_->index_of(column), {}, Json(Json::value_t::discarded), true, false});
}

Json Columns::json() const {
  const std::vector<std::size_t> length = lengths();
  Json json = Json::object();
  for (const Entry& entry : entries_) {
    const ColumnSpec& column = schema_->columns()[entry.column];
    if (column.json.empty() || !entry.json) continue;
    Json* node = &json;
    for (const std::string& key : words_of(column.json, '/')) {
      if (key.front() != '{' && key.front() != '[') {
        node = &(*node)[key];
        continue;
      }
      const auto step = find_step(entry.steps, std::string_view(key).substr(1, key.size() - 2));
      if (step == entry.steps.end()) throw std::logic_error(fmt::format("column {}: where on {}?", column.name, key));
      node = key.front() == '{' ? &(*node)[step->label] : &(*node)[step->index];
    }
    std::vector<std::size_t> open;
    for (const std::string& name : words_of(column.dimensions)) {
      if (find_step(entry.steps, name) != entry.steps.end()) continue;
      const auto at = std::ranges::find(schema_->dimensions(), name, &DimensionSpec::name);
      open.push_back(length[static_cast<std::size_t>(at - schema_->dimensions().begin())]);
    }
    if (open.size() < 2 || entry.values.empty()) {
      *node = entry.values;
      continue;
    }
    const std::size_t size = std::accumulate(open.begin(), open.end(), std::size_t{1}, std::multiplies());
    if (entry.values.size() != size) {
      throw std::logic_error(
          fmt::format("column {}: {} values where its dimensions have {}", column.name, entry.values.size(), size));
    }
    std::size_t next = 0;
    *node = nested(entry.values, open, 0, next);
  }
  json["provenance"].update(origin_);
  return json;
}

std::vector<std::size_t> Columns::lengths() const {
  std::vector<std::size_t> all(schema_->dimensions().size(), 0);
  std::vector<bool> has_coordinate(all.size(), false);
  const auto grow = [&](std::string_view name, std::size_t length, bool coordinate) {
    const auto at = std::ranges::find(schema_->dimensions(), name, &DimensionSpec::name);
    const auto d = static_cast<std::size_t>(at - schema_->dimensions().begin());
    if (d == all.size() || (has_coordinate[d] && !coordinate)) return;
    has_coordinate[d] = has_coordinate[d] || coordinate;
    all[d] = std::max(all[d], length);
  };
  for (const bool coordinates : {true, false}) {
    for (const Entry& entry : entries_) {
      const ColumnSpec& column = schema_->columns()[entry.column];
      if (!column.in_files || !entry.files || entry.values.is_discarded() ||
          (column.dimensions == column.name) != coordinates)
        continue;
      std::vector<std::string> open = words_of(column.dimensions);
      for (const Row::Step& step : entry.steps) {
        if (std::erase(open, step.dimension) > 0) grow(step.dimension, step.index + 1, coordinates);
      }
      if (open.size() == 1) grow(open.front(), entry.values.size(), coordinates);
    }
  }
  return all;
}

void Columns::fill(periscope::dataset::Column& variable, const std::vector<std::size_t>& shape,
                   const Entry& entry) const {
  const std::size_t count = entry.values.is_array() ? entry.values.size() : 1;
  for (std::size_t k = 0; k < count; ++k) {
    std::size_t rest = k;
    std::size_t flat = 0;
    std::size_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const auto step = find_step(entry.steps, variable.dimensions[d]);
      const bool fixed = step != entry.steps.end();
      flat += stride * (fixed ? step->index : rest % shape[d]);
      if (!fixed) rest /= shape[d];
      stride *= shape[d];
    }
    if (rest != 0) throw std::logic_error(fmt::format("column {}: {} values are too many", variable.name, count));
    const Json& value = entry.values.is_array() ? entry.values[k] : entry.values;
    if (auto* words = std::get_if<std::vector<std::string>>(&variable.values)) {
      words->at(flat) = value.get<std::string>();
    } else {
      std::get<std::vector<double>>(variable.values).at(flat) = number_of(value);
    }
  }
}

periscope::dataset::Dataset Columns::dataset() const {
  periscope::dataset::Dataset data;
  for (const auto& [name, value] : origin_.items()) add_fact(data.facts, name, value);
  const std::vector<std::size_t> length = lengths();
  for (std::size_t d = 0; d < length.size(); ++d) {
    const DimensionSpec& dimension = schema_->dimensions()[d];
    if (length[d] > 0) data.dimensions.push_back({dimension.name, length[d], dimension.free});
  }
  std::vector<std::vector<const Entry*>> by_column(schema_->columns().size());
  for (const Entry& entry : entries_) {
    if (entry.files) by_column[entry.column].push_back(&entry);
  }
  for (std::size_t i = 0; i < by_column.size(); ++i) {
    const ColumnSpec& column = schema_->columns()[i];
    if (!column.in_files || by_column[i].empty()) continue;
    periscope::dataset::Column v{.name = column.name,
                                 .dimensions = words_of(column.dimensions),
                                 .values = {},
                                 .units = column.units,
                                 .meaning = column.meaning};
    if (v.dimensions.empty()) {
      const Json& value = by_column[i].back()->values;
      if (!value.is_null()) add_fact(data.facts, v.name, value.is_boolean() ? Json(number_of(value)) : value);
      continue;
    }
    std::vector<std::size_t> shape;
    std::size_t size = 1;
    for (const std::string& name : v.dimensions) {
      const auto at = std::ranges::find(schema_->dimensions(), name, &DimensionSpec::name);
      shape.push_back(length[static_cast<std::size_t>(at - schema_->dimensions().begin())]);
      size *= shape.back();
    }
    if (size == 0) continue;
    if (column.units.empty()) {
      v.values = std::vector<std::string>(size);
    } else {
      v.values = std::vector<double>(size, std::numeric_limits<double>::quiet_NaN());
    }
    for (const Entry* entry : by_column[i]) {
      if (!entry->values.is_discarded()) fill(v, shape, *entry);
    }
    data.columns.push_back(std::move(v));
  }
  return data;
}

}  // namespace periscope
