#include "experiments/engine/result/json_image.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace periscope::dataset {
namespace {

using Json = nlohmann::ordered_json;
using StepKind = Place::Step::Kind;

/// `json`: text that begins as JSON is JSON.
Json value_at(const Values& values, std::size_t i, bool json = false) {
  if (const auto* words = std::get_if<std::vector<std::string>>(&values)) {
    const std::string& word = (*words)[i];
    return json && (word.starts_with('{') || word.starts_with('[')) ? Json::parse(word) : Json(word);
  }
  if (is_missing(values, i)) return nullptr;
  if (const auto* reals = std::get_if<std::vector<double>>(&values)) {
    return std::isfinite((*reals)[i]) ? Json((*reals)[i]) : Json();
  }
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&values)) return (*integers)[i];
  return std::get<std::vector<std::uint8_t>>(values)[i] != 0;
}

std::string label_at(const Values& values, std::size_t i) {
  const Json value = value_at(values, i);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Writes one column.
class Writer {
 public:
  Writer(const Schema& schema, const Dataset& data, const Column& column, Json& all)
      : schema_(schema),
        data_(data),
        column_(column),
        spec_(schema.columns()[schema.index_of(column.name)]),
        place_(spec_.place),
        all_(all),
        index_(column.dimensions.size(), 0) {
    for (const std::string& name : column.dimensions) {
      length_.push_back(data.length(name));
      fixed_.push_back(place_.fixes(name));
    }
  }

  /// At every position of the dimensions that steps fix.
  void write(std::size_t axis = 0) {
    if (axis == length_.size()) {
      bool is_there = false;
      const Json values = open_values(0, is_there);
      if (is_there || keeps_null()) put(values);
      return;
    }
    if (!fixed_[axis]) return write(axis + 1);
    for (std::size_t i = 0; i < length_[axis]; ++i) {
      index_[axis] = i;
      write(axis + 1);
    }
    index_[axis] = 0;
  }

 private:
  /// Numbers that are not there are null where the result has others of the kind; an entry that has a label is left
  /// out.
  [[nodiscard]] bool keeps_null() const {
    const auto is_label = [](const Place::Step& step) { return step.kind == StepKind::by; };
    return column_.type() != Type::text && !column_.expected && std::ranges::none_of(place_.steps(), is_label);
  }
  [[nodiscard]] std::size_t flat() const {
    std::size_t at = 0;
    for (std::size_t d = 0; d < length_.size(); ++d) at = at * length_[d] + index_[d];
    return at;
  }
  /// Arrays nested by the dimensions that no step fixes.
  Json open_values(std::size_t axis, bool& is_there) {
    if (axis == length_.size()) {
      is_there = is_there || !is_missing(column_.values, flat());
      return value_at(column_.values, flat(), spec_.json);
    }
    if (fixed_[axis]) return open_values(axis + 1, is_there);
    Json array = Json::array();
    for (std::size_t i = 0; i < length_[axis]; ++i) {
      index_[axis] = i;
      array.push_back(open_values(axis + 1, is_there));
    }
    index_[axis] = 0;
    return array;
  }
  [[nodiscard]] std::size_t index_on(const std::string& dimension) const {
    return index_[static_cast<std::size_t>(std::ranges::find(column_.dimensions, dimension) -
                                           column_.dimensions.begin())];
  }
  /// The coordinates of the position on the dimensions of a list.
  void say_where(Json& element, const std::vector<std::string>& dimensions) const {
    element = Json::object();
    for (const std::string& name : dimensions) {
      const Column* labels = data_.find(name);
      if (labels == nullptr) continue;
      element[name] = value_at(labels->values, index_on(name), schema_.columns()[schema_.index_of(name)].json);
    }
  }
  static bool says_nothing(const Json& values) {
    return values.is_null() || (values.is_array() && std::ranges::all_of(values, says_nothing));
  }
  void put(const Json& values) const {
    Json* node = &all_;
    for (const Place::Step& step : place_.steps()) {
      if (step.kind == StepKind::key) {
        node = &(*node)[step.names.front()];
      } else if (step.kind == StepKind::by) {
        node = &(*node)[label_at(data_.find(step.names.front())->values, index_on(step.names.front()))];
      } else {
        std::size_t position = 0;
        for (const std::string& name : step.names) position = position * data_.length(name) + index_on(name);
        // An element is there for what it has, not for what it lacks.
        if (says_nothing(values) && (!node->is_array() || position >= node->size())) return;
        if (!node->is_array()) *node = Json::array();
        node = &(*node)[position];
        if (node->is_null()) say_where(*node, step.names);
      }
    }
    if (place_.steps().empty()) node = &(*node)[column_.name];
    *node = values;
  }

  const Schema& schema_;
  const Dataset& data_;
  const Column& column_;
  const ColumnSpec& spec_;
  const Place& place_;
  Json& all_;
  std::vector<std::size_t> length_;
  std::vector<bool> fixed_;
  std::vector<std::size_t> index_;
};

/// Puts a remark into every object that is at its place, from step `next` on.
void put_remark(Json& node, const Remark& remark, std::size_t next) {
  const auto& steps = remark.place.steps();
  if (next + 1 == steps.size()) {
    if (node.is_object()) node[steps[next].names.front()] = remark.words;
    return;
  }
  if (steps[next].kind == StepKind::key) {
    if (node.is_object() && node.contains(steps[next].names.front())) {
      put_remark(node[steps[next].names.front()], remark, next + 1);
    }
    return;
  }
  for (Json& below : node) put_remark(below, remark, next + 1);
}

}  // namespace

Json json_image(const Schema& schema, const Dataset& data) {
  Json all = Json::object();
  std::set<std::string> shown;  // dimensions whose positions JSON says by elements and keys
  for (const Column& column : data.columns) {
    if (column.is_coordinate()) continue;
    const Place& place = schema.columns()[schema.index_of(column.name)].place;
    for (const std::string& name : column.dimensions) {
      if (place.fixes(name)) shown.insert(name);
    }
    Writer(schema, data, column, all).write();
  }
  for (const Remark& remark : schema.remarks()) put_remark(all, remark, 0);
  for (const Column& column : data.columns) {
    if (!column.is_coordinate() || shown.contains(column.name)) continue;
    for (std::size_t i = 0; i < size_of(column.values); ++i) {
      const bool json = schema.columns()[schema.index_of(column.name)].json;
      all["coordinates"][column.name].push_back(value_at(column.values, i, json));
    }
  }
  return all;
}

Json json_image(const Facts& facts) {
  Json all = Json::object();
  for (const auto& [name, value] : facts) {
    if (const auto* json = std::get_if<JsonText>(&value)) {
      all[name] = Json::parse(json->text);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      all[name] = *text;
    } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      all[name] = *whole;
    } else {
      all[name] = std::get<double>(value);
    }
  }
  return all;
}

}  // namespace periscope::dataset
