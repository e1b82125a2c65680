#pragma once

#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "experiments/engine/result/dataset.h"

namespace periscope::dataset {

/// A dimension of a result and its coordinate, the column of the same name.
struct DimensionSpec {
  std::string name;
  // `type`, `units` and `meaning` of the coordinate. Without a meaning, the dimension has no coordinate.
  Type type = Type::text;
  std::string units = {};
  std::string meaning = {};
  bool free = false;  ///< grows during a run, such as training steps; unlimited in NetCDF
};

/// Declaration of a result's column.
struct ColumnSpec {
  std::string name;        ///< variable name in files
  std::string dimensions;  ///< separated by spaces; "": a scalar
  std::string units;  ///< UDUNITS units; "1" for dimensionless numbers and flags, "" for text. "nat", "nat2" and "dB",
                      ///< unknown to UDUNITS, are stored as "1" and mentioned in the meaning
  std::string meaning;  ///< long_name in files
  Type type = Type::real;
  bool label = false;  ///< an additional coordinate of its dimension

  [[nodiscard]] std::vector<std::string> axes() const;  ///< names of the dimensions
};

/// Schema of a kind of result.
class Schema {
 public:
  /// `version` starts at 1. Increment it when a column is removed or changes its name, dimensions, type, units or
  /// meaning. Throws std::logic_error for incomplete or repeated declarations and unknown dimensions.
  Schema(std::string kind, int version, std::vector<DimensionSpec> dimensions, std::vector<ColumnSpec> columns);

  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] int version() const { return version_; }
  [[nodiscard]] const std::vector<DimensionSpec>& dimensions() const { return dimensions_; }
  /// Returns all columns, coordinates first.
  [[nodiscard]] const std::vector<ColumnSpec>& columns() const { return columns_; }
  // Return the index of a column or dimension. Throw std::logic_error for an undeclared name.
  [[nodiscard]] std::size_t index_of(std::string_view column) const;
  [[nodiscard]] std::size_t dimension(std::string_view name) const;
  /// Returns the indices of a column's dimensions.
  [[nodiscard]] const std::vector<std::size_t>& axes_of(std::size_t column) const { return axes_[column]; }

 private:
  std::string kind_;
  int version_;
  std::vector<DimensionSpec> dimensions_;
  std::vector<ColumnSpec> columns_;
  std::vector<std::vector<std::size_t>> axes_;
  std::unordered_map<std::string, std::size_t> index_;
};

template <class T>
inline constexpr bool is_text = std::is_convertible_v<const T&, std::string_view>;

/// Converts a value to a column's storage type: text, flag, double or integer. An empty std::optional becomes missing.
template <class T>
auto stored(const T& value) {
  if constexpr (is_text<T>) {
    return std::string(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? stored(*value) : missing<decltype(stored(*value))>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return static_cast<std::uint8_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<std::int64_t>(value);
  }
}

/// Converts a value or a range of values to a vector of a column's storage type.
template <class T>
auto stored_values(const T& value) {
  if constexpr (std::ranges::range<const T> && !is_text<T>) {
    std::vector<decltype(stored(*std::ranges::begin(value)))> values;
    for (const auto& one : value) values.push_back(stored(one));
    return values;
  } else {
    return std::vector{stored(value)};
  }
}

/// Returns the type of a column that stores a T or a range of T.
template <class T>
Type type_of() {
  return static_cast<Type>(Values(decltype(stored_values(std::declval<const T&>()))()).index());
}

/// Builds a dataset: stores values in the columns that a schema declares.
class Builder {
 public:
  /// The schema must outlive this object.
  explicit Builder(const Schema& schema) : schema_(&schema) {}

  /// Pairs (dimension, index along it).
  using Position = std::vector<std::pair<std::size_t, std::size_t>>;

  /// Fixed indices along some dimensions, at which values are stored.
  class Row {
   public:
    explicit Row(Builder& builder) : builder_(&builder) {}
    /// Returns this row with the index along one more dimension fixed.
    [[nodiscard]] Row at(std::string_view dimension, std::size_t index) const;
    /// Stores values along the dimensions of `column` that this row does not fix, row-major. Values never stored are
    /// missing. Throws std::logic_error for an undeclared column or a value of the wrong type.
    template <class T>
    void put(std::string_view column, const T& value) const {
      builder_->put(column, at_, stored_values(value));
    }

   private:
    Builder* builder_;
    Position at_;
  };

  [[nodiscard]] Row row() { return Row(*this); }
  [[nodiscard]] Row at(std::string_view dimension, std::size_t index) { return row().at(dimension, index); }
  template <class T>
  void put(std::string_view column, const T& value) {
    row().put(column, value);
  }
  /// Stores the coordinate first, first + 1, …
  void count(std::string_view dimension, std::size_t length, std::int64_t first = 0);
  /// Returns the dataset of all columns with stored values, in declared order. A dimension has the length of its
  /// coordinate, else the largest length that stored values require. Dimensions used only by their coordinate are
  /// omitted. Throws std::logic_error if values do not fit the dimensions of their column.
  [[nodiscard]] Dataset finish() const;

 private:
  struct Entry {
    std::size_t column;
    Position at;
    Values values;
  };
  void put(std::string_view column, const Position& at, Values values);
  [[nodiscard]] std::vector<std::size_t> lengths() const;
  void fill(Values& all, const Entry& entry, const std::vector<std::size_t>& length) const;

  const Schema* schema_;
  std::vector<Entry> entries_;
};

}  // namespace periscope::dataset
