#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "experiments/engine/result/schema.h"

namespace periscope::dataset {

namespace details {
template <class T>
inline constexpr bool is_text = std::is_convertible_v<const T&, std::string_view>;
template <class T>
struct OptionalOf : std::false_type {
  using Inner = T;
};
template <class T>
struct OptionalOf<std::optional<T>> : std::true_type {
  using Inner = T;
};
template <class T>
concept List = !is_text<T> && requires(const T& list) {
  list.begin();
  list.end();
};
template <class T>
struct ElementOf {
  using type = T;
};
template <List T>
struct ElementOf<T> {
  using type = std::remove_cvref_t<decltype(*std::declval<const T&>().begin())>;
};
/// The element without its std::optional.
template <class T>
using Scalar = typename OptionalOf<typename ElementOf<typename OptionalOf<std::remove_cvref_t<T>>::Inner>::type>::Inner;
/// What a column stores of a T, or of every element of a list: text, a flag, a double or a whole number.
template <class T, class S = Scalar<T>>
using Stored =
    std::conditional_t<is_text<S>, std::string,
                       std::conditional_t<std::is_same_v<S, bool>, std::uint8_t,
                                          std::conditional_t<std::is_floating_point_v<S>, double, std::int64_t>>>;
}  // namespace details

/// The type of the column that a value of C++ goes into: double, a whole number, bool, text, one of them or none
/// (std::optional), or a list of them.
template <class T>
Type type_of() {
  return static_cast<Type>(Values(std::vector<details::Stored<T>>()).index());
}

/// A value, or a list of values, as a column holds them.
template <class T>
Values values_of(const T& value) {
  using Stored = details::Stored<T>;
  std::vector<Stored> values;
  const auto append = [&]<class V>(const V& one) {
    if constexpr (details::OptionalOf<V>::value) {
      values.push_back(one ? static_cast<Stored>(*one) : missing<Stored>());
    } else {
      values.push_back(static_cast<Stored>(one));
    }
  };
  if constexpr (details::List<T>) {
    for (const auto& one : value) append(static_cast<typename details::ElementOf<T>::type>(one));
  } else {
    append(value);
  }
  return values;
}

/// A result in the making: values in the columns that its schema declares, put there row by row.
class Builder {
 public:
  /// The schema must outlive this.
  explicit Builder(const Schema& schema) : schema_(&schema) {}

  /// A position on some dimensions, at which values are put.
  class Row {
   public:
    /// Returns the position that this one becomes with `index` on one more dimension.
    [[nodiscard]] Row at(std::string_view dimension, std::size_t index) const;
    /// The values on the dimensions of `column` that the row leaves open, in their order, row-major; behind the last
    /// one there is none. Throws std::logic_error for a column that was not declared, or with another type.
    template <class T>
    void put(std::string_view column, const T& value) const {
      builder_->put(builder_->schema_->index_of(column), at_, values_of(value));
    }

   private:
    friend class Builder;
    explicit Row(Builder& builder) : builder_(&builder) {}
    Builder* builder_;
    std::vector<std::pair<std::size_t, std::size_t>> at_;  // dimension and index
  };

  [[nodiscard]] Row row() { return Row(*this); }
  [[nodiscard]] Row at(std::string_view dimension, std::size_t index) { return row().at(dimension, index); }
  template <class T>
  void put(std::string_view column, const T& value) {
    row().put(column, value);
  }
  /// The coordinate first, first + 1, …
  void count(std::string_view dimension, std::size_t length, std::int64_t first = 0);
  /// The result has this column even if nothing is put there.
  void mention(std::string_view column);

  /// The columns in which anything was put, in their declared order. A dimension is as long as its coordinate, or else
  /// as what was put along it; one on which nothing but its coordinate stands is left out. Throws std::logic_error for
  /// more values than there is room.
  [[nodiscard]] Dataset finish() const;

 private:
  struct Entry {
    std::size_t column;
    std::vector<std::pair<std::size_t, std::size_t>> at;
    Values values;
  };
  void put(std::size_t column, const std::vector<std::pair<std::size_t, std::size_t>>& at, Values values);
  [[nodiscard]] std::vector<std::size_t> lengths() const;
  void fill(Values& all, const Entry& entry, const std::vector<std::size_t>& length) const;

  const Schema* schema_;
  std::vector<Entry> entries_;
};

}  // namespace periscope::dataset
