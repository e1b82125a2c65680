#include "experiments/engine/result/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace periscope::dataset {
namespace {

/// In quotes where the text needs them.
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

/// Returns, for every dimension, the fields that stand for its positions: the values of its coordinate, or the numbers
/// 0, 1, … if it has none.
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
