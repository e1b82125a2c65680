#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/engine/result/schema.h"

namespace periscope::testing {

/// Numbers of which no two are equal, nor in a simple ratio: whoever takes one for another is seen.
class Irregular {
 public:
  explicit Irregular(double first = 0.1) : at_(first) {}
  /// The next one, between 1 and 2: the golden ratio's multiples modulo 1 never come back.
  double next();
  std::vector<double> next(std::size_t count);

 private:
  double at_;
};

/// The columns of a planted result, held against numbers that the test works out from what it planted. Every failure
/// names its column. Words that are "" and numbers that are NaN stand for what was not put.
class ExpectedColumns {
 public:
  using Json = nlohmann::ordered_json;

  ExpectedColumns(const dataset::Schema& schema, dataset::Dataset data);

  /// Column `name`, row-major on all of its dimensions, or one value of a column without dimensions. Flags are 0 and 1.
  /// `json` is where JSON has the same values, in the same order, "*" standing for every element of a list or object
  /// ("stacks/*/excess"); "" if JSON has none of them. JSON may leave out what is not there (null, "").
  void numbers(std::string_view name, const std::vector<double>& values, const std::string& json = "");
  void words(std::string_view name, const std::vector<std::string>& values, const std::string& json = "");
  /// What JSON has at `path`, a pattern as above: all leaves in their order.
  void json(const std::string& path, const std::vector<Json>& leaves);
  /// The leaves of lists and objects within each other, in their order.
  static std::vector<Json> leaves_of(const Json& node);
  /// Checks that no column was left out. JSON, which is an image of the columns, needs no such check.
  void complete();

 private:
  /// What JSON has at a pattern: `whole`, or leaf by leaf.
  std::vector<Json> at(const std::string& path, bool whole);

  const dataset::Schema& schema_;
  Json json_;
  dataset::Dataset data_;
  std::set<std::string> seen_columns_;
};

}  // namespace periscope::testing
