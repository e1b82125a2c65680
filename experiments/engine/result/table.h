#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/result/builder.h"
#include "sim/spec/profile.h"

namespace periscope::dataset {

/// All that is said about a column (ColumnSpec) but its type, which follows from its values.
struct ColumnText {
  std::string name;
  std::string dimensions;
  std::string units;
  std::string meaning;
};

/// The columns that are filled from an S: each is declared and filled by one entry. A schema is made of the
/// declarations, a dataset by put().
template <class S>
class Table {
 public:
  using Row = Builder::Row;

  /// `value(s)`, of a function or a member: the column's value, or its values along the dimensions that the row leaves
  /// open (type_of).
  template <class F>
  Table& column(ColumnText says, F value) {
    using Value = std::remove_cvref_t<std::invoke_result_t<F, const S&>>;
    declare(std::move(says), type_of<Value>());
    fills_.push_back([name = specs_.back().name, value = std::move(value)](const S& s, const Row& row) {
      row.put(name, std::invoke(value, s));
    });
    return *this;
  }
  /// Declares and fills a column that may lack a value: `value(s)` is a std::optional, and nothing is put if it is
  /// empty.
  template <class F>
  Table& column_if_any(ColumnText says, F value) {
    using Value = std::remove_cvref_t<std::invoke_result_t<F, const S&>>;
    declare(std::move(says), type_of<typename Value::value_type>());
    fills_.push_back([name = specs_.back().name, value = std::move(value)](const S& s, const Row& row) {
      if (const Value v = std::invoke(value, s)) row.put(name, *v);
    });
    return *this;
  }
  /// Declares and fills the values and the standard errors of a Curve, which `read(s)` returns as a std::optional or a
  /// pointer; nothing is put if there is none.
  template <class F>
  Table& curve(ColumnText values, ColumnText errors, F read) {
    const auto part = [&](std::vector<double> Curve::*numbers) {
      return [read, numbers](const S& s) {
        const auto found = std::invoke(read, s);
        return found ? std::optional((*found).*numbers) : std::nullopt;
      };
    };
    return column_if_any(std::move(values), part(&Curve::value))
        .column_if_any(std::move(errors), part(&Curve::standard_error));
  }
  /// The columns of `table`, filled from what `pointer(s)`, a pointer or std::optional, points to; not at all if empty.
  template <class T, class F>
  Table& part(const Table<T>& table, F pointer) {
    adopt(table.specs());
    fills_.push_back([table, pointer = std::move(pointer)](const S& s, const Row& row) {
      if (const auto& t = std::invoke(pointer, s)) table.put(*t, row);
    });
    return *this;
  }
  /// The columns of `table`, filled from each element of the list `parts(s)`, at its position on `dimension`.
  template <class T, class F>
  Table& rows(std::string dimension, const Table<T>& table, F parts) {
    adopt(table.specs());
    fills_.push_back([table, dimension = std::move(dimension), parts = std::move(parts)](const S& s, const Row& row) {
      std::size_t i = 0;
      for (const T& t : std::invoke(parts, s)) table.put(t, row.at(dimension, i++));
    });
    return *this;
  }
  /// Adds the columns of `table`, filled from each element of `parts(s)`, a list of (index, element): the element is
  /// put at position `index` on `dimension`.
  template <class T, class F>
  Table& rows_at(std::string dimension, const Table<T>& table, F parts) {
    adopt(table.specs());
    fills_.push_back([table, dimension = std::move(dimension), parts = std::move(parts)](const S& s, const Row& row) {
      for (const auto& [index, t] : std::invoke(parts, s)) table.put(t, row.at(dimension, index));
    });
    return *this;
  }
  /// Columns of a family, which `fill(s, row)` puts itself.
  template <class F>
  Table& family(std::vector<ColumnSpec> specs, F fill) {
    adopt(specs);
    fills_.push_back(std::move(fill));
    return *this;
  }

  [[nodiscard]] const std::vector<ColumnSpec>& specs() const { return specs_; }
  void put(const S& s, const Row& row) const {
    for (const auto& fill : fills_) fill(s, row);
  }

 private:
  void declare(ColumnText says, Type type) {
    specs_.push_back({.name = std::move(says.name),
                      .dimensions = std::move(says.dimensions),
                      .type = type,
                      .units = std::move(says.units),
                      .meaning = std::move(says.meaning)});
  }
  void adopt(const std::vector<ColumnSpec>& more) { specs_.insert(specs_.end(), more.begin(), more.end()); }

  std::vector<ColumnSpec> specs_;
  std::vector<std::function<void(const S&, const Row&)>> fills_;
};

}  // namespace periscope::dataset
