#include "tests/columns/expected_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/result/json_image.h"
#include "experiments/engine/result/words.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

using Json = ExpectedColumns::Json;

/// A column's number and the test's own are a few sums and products of doubles; what the test works out by another
/// order of operations, as a quantile of Student's t, is within 1e-10.
constexpr double tolerance = 1e-10;

bool same(double found, double expected) {
  if (std::isnan(found) || std::isnan(expected)) return std::isnan(found) == std::isnan(expected);
  return found == expected || std::abs(found - expected) <= tolerance * std::abs(expected);
}

double number_of(const Json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  return value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>();
}

bool same(const Json& found, const Json& expected) {
  const auto is_number = [](const Json& value) { return value.is_number() || value.is_null(); };
  if (is_number(found) && is_number(expected)) return same(number_of(found), number_of(expected));
  return found == expected;
}

/// Every leaf below a node, with its place.
void add_leaves(const std::string& at, const Json& node, std::vector<std::pair<std::string, Json>>& all) {
  if (!node.is_structured()) {
    all.emplace_back(at, node);
    return;
  }
  for (const auto& [key, value] : node.items()) add_leaves(at + "/" + key, value, all);
}

void add_matches(const std::string& at, const Json& node, const std::vector<std::string>& keys, std::size_t next,
                 bool whole, std::vector<std::pair<std::string, Json>>& all) {
  if (next == keys.size()) {
    if (whole) {
      all.emplace_back(at, node);
    } else {
      add_leaves(at, node, all);
    }
    return;
  }
  for (const auto& [key, value] : node.items()) {
    if (keys[next] == "*" || keys[next] == key) add_matches(at + "/" + key, value, keys, next + 1, whole, all);
  }
}

/// Differences name the first place, of how many.
template <class T, class Same>
void check_same(const std::string& what, const std::vector<T>& found, const std::vector<T>& expected,
                const Same& equal) {
  if (found.size() != expected.size()) {
    FAIL_CHECK("column " << what << ": " << found.size() << " values, expected " << expected.size());
    return;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK_MESSAGE(equal(found[i], expected[i]),
                  "column " << what << "[" << i << "]: found " << found[i] << ", expected " << expected[i]);
  }
}

}  // namespace

double Irregular::next() {
  at_ += 0.61803398874989485;
  at_ -= std::floor(at_);
  return 1.0 + at_;
}

std::vector<double> Irregular::next(std::size_t count) {
  std::vector<double> values(count);
  for (double& v : values) v = next();
  return values;
}

ExpectedColumns::ExpectedColumns(const dataset::Schema& schema, dataset::Dataset data)
    : schema_(schema), json_(dataset::json_image(schema, data)), data_(std::move(data)) {}

std::vector<Json> ExpectedColumns::at(const std::string& path, bool whole) {
  std::vector<std::pair<std::string, Json>> all;
  add_matches("", json_, dataset::words_of(path, '/'), 0, whole, all);
  std::vector<Json> values;
  for (const auto& leaf : all) values.push_back(leaf.second);
  return values;
}

void ExpectedColumns::numbers(std::string_view name, const std::vector<double>& values, const std::string& json) {
  const std::string column(name);
  seen_columns_.insert(column);
  std::vector<double> found;
  if (const dataset::Column* variable = data_.find(column)) {
    REQUIRE_MESSAGE(variable->type() != dataset::Type::text, "column " << column << " holds words");
    for (std::size_t i = 0; i < dataset::size_of(variable->values); ++i) {
      found.push_back(dataset::number_at(variable->values, i));
    }
  }
  const auto equal = [](double a, double b) { return same(a, b); };
  check_same<double>(column, found, values, equal);
  if (json.empty()) return;
  std::vector<double> in_json;
  for (const Json& leaf : at(json, false)) {
    if (const double value = number_of(leaf); std::isfinite(value)) in_json.push_back(value);
  }
  std::vector<double> there;
  std::ranges::copy_if(values, std::back_inserter(there), [](double v) { return std::isfinite(v); });
  check_same<double>(column + " in JSON, " + json, in_json, there, equal);
}

void ExpectedColumns::words(std::string_view name, const std::vector<std::string>& values, const std::string& json) {
  const std::string column(name);
  seen_columns_.insert(column);
  std::vector<std::string> found;
  if (const dataset::Column* variable = data_.find(column)) {
    const auto* as_words = std::get_if<std::vector<std::string>>(&variable->values);
    REQUIRE_MESSAGE(as_words != nullptr, "column " << column << " holds numbers");
    found = *as_words;
  }
  const auto equal = [](const std::string& a, const std::string& b) { return a == b; };
  check_same<std::string>(column, found, values, equal);
  if (json.empty()) return;
  const auto is_structure = [](const std::string& word) { return word.starts_with('{') || word.starts_with('['); };
  if (schema_.columns()[schema_.index_of(name)].json && std::ranges::any_of(values, is_structure)) {
    std::vector<Json> there;
    for (const std::string& word : values) {
      if (!word.empty()) there.push_back(is_structure(word) ? Json::parse(word) : Json(word));
    }
    check_same<Json>(column + " in JSON, " + json, at(json, true), there,
                     [](const Json& a, const Json& b) { return same(a, b); });
    return;
  }
  std::vector<std::string> in_json;
  for (const Json& leaf : at(json, false)) {
    if (leaf.is_string() && leaf != "") in_json.push_back(leaf.get<std::string>());
  }
  std::vector<std::string> there;
  std::ranges::copy_if(values, std::back_inserter(there), [](const std::string& v) { return !v.empty(); });
  check_same<std::string>(column + " in JSON, " + json, in_json, there, equal);
}

void ExpectedColumns::json(const std::string& path, const std::vector<Json>& expected) {
  check_same<Json>("in JSON alone, " + path, at(path, false), expected,
                   [](const Json& a, const Json& b) { return same(a, b); });
}

std::vector<Json> ExpectedColumns::leaves_of(const Json& node) {
  std::vector<std::pair<std::string, Json>> all;
  add_leaves("", node, all);
  std::vector<Json> values;
  for (const auto& leaf : all) values.push_back(leaf.second);
  return values;
}

void ExpectedColumns::complete() {
  for (const dataset::Column& variable : data_.columns) {
    CHECK_MESSAGE(seen_columns_.contains(variable.name), "column " << variable.name << " is checked by nothing");
  }
}

}  // namespace periscope::testing
