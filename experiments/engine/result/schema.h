#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "experiments/engine/result/dataset.h"

namespace periscope::dataset {

/// A dimension of a result, and its coordinate: the column of the same name with the values along it.
struct DimensionSpec {
  std::string name;
  // Of the coordinate, as in ColumnSpec. A meaning "" declares no coordinate.
  Type type = Type::text;
  std::string units = {};
  std::string meaning = {};
  bool free = false;  ///< as long as the run lasts (steps of training); NetCDF calls it unlimited
};

/// The declaration of one column of a result, from which files, JSON and lists are made.
struct ColumnSpec {
  std::string name;        ///< the variable in files
  std::string dimensions;  ///< separated by spaces; "": one value for the whole result
  Type type;
  std::string units;    ///< as UDUNITS writes them, "1" of pure numbers and flags; "" of text. "nat", "nat2" and "dB",
                        ///< which it does not know, become "1" and words of the meaning
  std::string meaning;  ///< the variable's long_name
  bool label = false;   ///< describes the positions on its dimension, in addition to the coordinate

  [[nodiscard]] std::vector<std::string> axes() const;  ///< the dimensions one by one
};

/// The schema of a kind of result: its name, version, dimensions and columns.
class Schema {
 public:
  /// The version counts from 1 and rises when a column changes its name, dimensions, type, units or meaning, or goes.
  /// Throws std::logic_error for a declaration that is incomplete, repeated, or on an unknown dimension.
  Schema(std::string kind, int version, std::vector<DimensionSpec> dimensions, std::vector<ColumnSpec> columns);

  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] int version() const { return version_; }
  [[nodiscard]] const std::vector<DimensionSpec>& dimensions() const { return dimensions_; }
  /// Coordinates first.
  [[nodiscard]] const std::vector<ColumnSpec>& columns() const { return columns_; }
  /// The positions of a column and of a dimension. Throw std::logic_error for an undeclared name.
  [[nodiscard]] std::size_t index_of(std::string_view column) const;
  [[nodiscard]] std::size_t dimension(std::string_view name) const;
  /// The dimensions of a column, as positions.
  [[nodiscard]] const std::vector<std::size_t>& axes_of(std::size_t column) const { return axes_[column]; }

 private:
  std::string kind_;
  int version_;
  std::vector<DimensionSpec> dimensions_;
  std::vector<ColumnSpec> columns_;
  std::vector<std::vector<std::size_t>> axes_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace periscope::dataset
