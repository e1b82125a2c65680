#pragma once

#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "experiments/engine/result/schema.h"

namespace periscope::dataset {

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
  /// The result has this column even if nothing is put there.
  void mention(std::string_view column) { entries_.push_back({schema_->index_of(column), {}, {}}); }

  /// The columns in which anything was put, in their declared order. A dimension is as long as its coordinate, or else
  /// as what was put along it; one that only its coordinate uses is left out. Throws std::logic_error for more values
  /// than there is room.
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
