#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace periscope {

/// A dimension of a result, and its coordinate: the values along it, a column of the dimension's own name.
struct DimensionSpec {
  std::string name;
  std::string units = {};    ///< of the coordinate, as in ColumnSpec
  std::string meaning = {};  ///< of the coordinate; "" if positions have no values of their own
  std::string json = {};     ///< of the coordinate; most have no place there: their order, or keys, say the same
  bool free = false;         ///< as long as the run lasts (steps of training); NetCDF calls it unlimited
};

/// All that is said about one column of a result. Files (NetCDF, and CSV from it) and JSON are written from it.
struct ColumnSpec {
  std::string name;        ///< the variable in files
  std::string dimensions;  ///< separated by spaces; "": one value for the whole result, an attribute of the file
  std::string units;       ///< "1" of pure numbers and flags (1: true), "nat", "s", …; "" of words
  std::string meaning;     ///< the variable's long_name
  /// Keys in JSON, separated by "/". {d} is the label of the row's position on dimension d, [d] an element of a list.
  std::string json = {};
  std::string only = {};  ///< why it is in files alone (no path in JSON), or in JSON alone (json_only)
  bool in_files = true;
};

/// A column that JSON has and files have not.
ColumnSpec json_only(std::string name, std::string json, std::string meaning, std::string why);

/// What a kind of result consists of.
class Schema {
 public:
  /// The version counts from 1 and rises when a column changes its name, dimensions, units or meaning, or goes. Throws
  /// std::logic_error where a declaration is incomplete, or said twice.
  Schema(std::string kind, int version, std::vector<DimensionSpec> dimensions, std::vector<ColumnSpec> columns);

  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] int version() const { return version_; }
  [[nodiscard]] const std::vector<DimensionSpec>& dimensions() const { return dimensions_; }
  /// Coordinates first.
  [[nodiscard]] const std::vector<ColumnSpec>& columns() const { return columns_; }
  /// The position of a column. Throws std::logic_error for one that was not declared.
  [[nodiscard]] std::size_t index_of(std::string_view column) const;

 private:
  std::string kind_;
  int version_;
  std::vector<DimensionSpec> dimensions_;
  std::vector<ColumnSpec> columns_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// "input placement" as {"input", "placement"}.
std::vector<std::string> words_of(std::string_view text, char separator = ' ');

}  // namespace periscope
