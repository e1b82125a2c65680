#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/app/netcdf_file.h"
#include "experiments/core/dataset/columns.h"

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
  using Json = Columns::Json;

  explicit ExpectedColumns(const Columns& columns);

  /// Column `name` of the file, row-major on all of its dimensions, or one value of a column without dimensions.
  /// `json` is where JSON has the same values, in the same order, "*" standing for every element of a list or object
  /// ("stacks/*/excess"); "" if JSON has none of them. JSON may leave out what is not there (null, "").
  void numbers(std::string_view name, const std::vector<double>& values, const std::string& json = "");
  void words(std::string_view name, const std::vector<std::string>& values, const std::string& json = "");
  /// What JSON has at `path`, a pattern as above: all leaves in their order.
  void json(const std::string& path, const std::vector<Json>& leaves);
  /// The leaves of lists and objects within each other, in their order.
  static std::vector<Json> leaves_of(const Json& node);
  /// Checks that nothing was left out: every column of the file, and every leaf of JSON but its provenance.
  void complete();

 private:
  std::vector<Json> leaves(const std::string& path);

  Json json_;
  dataset::Dataset data_;
  std::set<std::string> seen_columns_;
  std::set<std::string> seen_leaves_;
};

}  // namespace periscope::testing
