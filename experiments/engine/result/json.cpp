#include "experiments/engine/result/json.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/engine/settings/json_text.h"

namespace periscope::dataset {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> dtypes{"float64", "int64", "bool", "str"};  // in the order of Type

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

/// The values from `next` on, as lists nested by the dimensions from `axis` on.
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
          {"dtype", dtypes[static_cast<std::size_t>(column.type())]},
          {"data", nested(data, column, 0, next)}};
}

Json value_of(const Fact& fact, bool parse) {
  if (const auto* json = std::get_if<JsonText>(&fact)) return parse ? Json::parse(json->text) : Json(json->text);
  if (const auto* text = std::get_if<std::string>(&fact)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&fact)) return *whole;
  return std::get<double>(fact);
}

}  // namespace

Json json_of(const Dataset& data) {
  Json attributes = Json::object();
  for (const auto& [name, fact] : attributes_of(data)) attributes[name] = value_of(fact, false);
  Json all{{"attrs", std::move(attributes)},
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

Json json_of(const Facts& facts) {
  Json all = Json::object();
  for (const auto& [name, fact] : facts) all[name] = value_of(fact, true);
  return all;
}

Facts attributes_of(const Dataset& data) {
  Facts all = data.facts;
  if (!data.circumstances.empty()) {
    all.emplace_back("circumstances", JsonText{config::json_text(json_of(data.circumstances))});
  }
  return all;
}

}  // namespace periscope::dataset
