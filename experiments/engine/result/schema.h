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
  std::string units;    ///< as UDUNITS writes them, "1" of pure numbers and flags; "" of text. "nat", "nat2" and "dB",
                        ///< which it does not know, become "1" and words of the meaning
  std::string meaning;  ///< the variable's long_name
  Type type = Type::real;
  bool label = false;  ///< describes the positions on its dimension, in addition to the coordinate

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

template <class T>
inline constexpr bool is_text = std::is_convertible_v<const T&, std::string_view>;

/// One value as a column stores it: text, a flag, a double or an integer; of an empty std::optional the missing value.
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

/// A value, or a list of values, as a column stores them.
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

/// The type of the column that stores a T or a list of T.
template <class T>
Type type_of() {
  return static_cast<Type>(Values(decltype(stored_values(std::declval<const T&>()))()).index());
}

/// A result in the making: values in the columns that its schema declares, put there row by row.
class Builder {
 public:
  /// The schema must outlive this.
  explicit Builder(const Schema& schema) : schema_(&schema) {}

  /// Dimensions and the index on each.
  using Position = std::vector<std::pair<std::size_t, std::size_t>>;

  /// A position on some dimensions, at which values are put.
  class Row {
   public:
    explicit Row(Builder& builder) : builder_(&builder) {}
    /// Returns the position that this one becomes with `index` on one more dimension.
    [[nodiscard]] Row at(std::string_view dimension, std::size_t index) const;
    /// Puts the values on those dimensions of `column` that the row leaves open, row-major; values that are not put are
    /// missing. Throws std::logic_error for a column that was not declared, or with another type.
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
  /// Puts the coordinate first, first + 1, …
  void count(std::string_view dimension, std::size_t length, std::int64_t first = 0);
  /// The columns in which anything was put, if only an empty list, in their declared order. A dimension is as long as
  /// its coordinate, or else as what was put along it; one that only its coordinate uses is left out. Throws
  /// std::logic_error for more values than there is room.
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
