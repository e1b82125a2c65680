#include "experiments/engine/result/serialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/settings/json_text.h"

namespace periscope::dataset {
namespace {

using Json = nlohmann::ordered_json;

Json value_at(const Values& values, std::size_t i) {
  if (const auto* words = std::get_if<std::vector<std::string>>(&values)) return (*words)[i];
  if (const auto* reals = std::get_if<std::vector<double>>(&values)) {
    const double x = (*reals)[i];
    if (std::isfinite(x)) return x;
    return std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
  }
  if (is_missing(values, i)) return nullptr;
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&values)) return (*integers)[i];
  return std::get<std::vector<std::uint8_t>>(values)[i] != 0;
}

/// Returns values starting at `next` as nested lists over the dimensions starting at `axis`, and advances `next`.
Json nested(const Dataset& data, const Column& column, std::size_t axis, std::size_t& next) {
  if (axis == column.dimensions.size()) return value_at(column.values, next++);
  Json list = Json::array();
  for (std::size_t i = data.length(column.dimensions[axis]); i > 0; --i) {
    list.push_back(nested(data, column, axis + 1, next));
  }
  return list;
}

Json variable(const Dataset& data, const Column& column) {
  Json attributes = Json::object();
  if (!column.units.empty()) attributes["units"] = column.units;
  attributes["long_name"] = column.meaning;
  std::size_t next = 0;
  return {{"dims", column.dimensions},
          {"attrs", std::move(attributes)},
          {"dtype", name_of(column.type())},
          {"data", nested(data, column, 0, next)}};
}

/// Returns a CSV field, quoted if necessary.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::vector<std::string> fields_of(const Column& column) {
  std::vector<std::string> fields;
  if (const auto* words = std::get_if<std::vector<std::string>>(&column.values)) {
    for (const std::string& word : *words) fields.push_back(field(word));
    return fields;
  }
  const auto* integers = std::get_if<std::vector<std::int64_t>>(&column.values);
  for (std::size_t i = 0; i < size_of(column.values); ++i) {
    const bool whole = integers != nullptr && !is_missing(column.values, i);
    fields.push_back(whole ? fmt::to_string((*integers)[i]) : fmt::to_string(number_at(column.values, i)));
  }
  return fields;
}

/// Returns the CSV fields of every dimension's positions: the values of its coordinate, or else 0, 1, …
std::vector<std::vector<std::string>> coordinates_of(const Dataset& data) {
  std::vector<std::vector<std::string>> all;
  for (const Dimension& dimension : data.dimensions) {
    std::vector<std::string>& coordinates = all.emplace_back();
    if (const Column* column = data.find(dimension.name)) {
      coordinates = fields_of(*column);
    } else {
      for (std::size_t i = 0; i < dimension.length; ++i) coordinates.push_back(fmt::to_string(i));
    }
  }
  return all;
}

void append_rows(std::string& text, const Column& column, const Dataset& data,
                 const std::vector<std::vector<std::string>>& coordinates) {
  std::vector<std::size_t> axes;
  for (const std::string& name : column.dimensions) {
    axes.push_back(
        static_cast<std::size_t>(std::ranges::find(data.dimensions, name, &Dimension::name) - data.dimensions.begin()));
  }
  const std::vector<std::string> values = fields_of(column);
  std::vector<const std::string*> row(coordinates.size(), nullptr);
  for (std::size_t flat = 0; flat < values.size(); ++flat) {
    std::size_t rest = flat;
    for (std::size_t k = axes.size(); k-- > 0;) {
      row[axes[k]] = &coordinates[axes[k]][rest % data.dimensions[axes[k]].length];
      rest /= data.dimensions[axes[k]].length;
    }
    text += field(column.name);
    for (const std::string* coordinate : row) {
      text += ',';
      if (coordinate != nullptr) text += *coordinate;
    }
    text += ',' + values[flat] + '\n';
  }
}

}  // namespace

Json json_of(const Dataset& data) {
  Json all{{"attrs", attributes_of(data)},
           {"dims", Json::object()},
           {"coords", Json::object()},
           {"data_vars", Json::object()}};
  for (const Dimension& dimension : data.dimensions) all["dims"][dimension.name] = dimension.length;
  for (const Column& column : data.columns) {
    const bool coordinate = column.label || column.is_coordinate();
    all[coordinate ? "coords" : "data_vars"][column.name] = variable(data, column);
  }
  return all;
}

Attributes attributes_of(const Dataset& data) {
  Attributes all = data.attributes;
  if (!data.circumstances.empty()) all["circumstances"] = data.circumstances;
  for (Json& attribute : all) {
    if (!attribute.is_string() && !attribute.is_number()) attribute = config::json_text(attribute);
  }
  return all;
}

std::string csv_text(const Dataset& data) {
  std::string text(csv_start);
  for (const Dimension& dimension : data.dimensions) text += ',' + field(dimension.name);
  text += ",value\n";
  const std::vector<std::vector<std::string>> coordinates = coordinates_of(data);
  for (const Column& column : data.columns) {
    if (!column.is_coordinate()) append_rows(text, column, data, coordinates);
  }
  return text;
}

}  // namespace periscope::dataset
