#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "sim/spec/profile.h"

namespace periscope::dataset {

/// Columns computed from an S. Each entry declares a column and its value, which determines the type. specs() returns
/// the declarations for a schema; put() stores the values in a dataset.
template <class S>
class Table {
 public:
  using Row = Builder::Row;

  /// Adds columns whose values `fill(s, row)` stores.
  template <class F>
  Table& family(const std::vector<ColumnSpec>& specs, F fill) {
    specs_.insert(specs_.end(), specs.begin(), specs.end());
    fills_.push_back(std::move(fill));
    return *this;
  }
  /// Adds a column with `value(s)`, a scalar or a range along the dimensions that the row does not fix. `value` is a
  /// function or a member pointer.
  template <class F>
  Table& column(ColumnSpec spec, F value) {
    spec.type = type_of<std::remove_cvref_t<std::invoke_result_t<F, const S&>>>();
    return family({spec}, [name = spec.name, value = std::move(value)](const S& s, const Row& row) {
      row.put(name, std::invoke(value, s));
    });
  }
  /// Adds a column with the std::optional `value(s)`; nothing is stored if it is empty.
  template <class F>
  Table& column_if_any(ColumnSpec spec, F value) {
    using Value = typename std::remove_cvref_t<std::invoke_result_t<F, const S&>>::value_type;
    return part(Table<Value>().column(std::move(spec), std::identity()), std::move(value));
  }
  /// Adds columns for the values and standard errors of a Curve. `read(s)` is a std::optional Curve or a pointer to
  /// one; nothing is stored if it is empty.
  template <class F>
  Table& curve(const ColumnSpec& values, const ColumnSpec& errors, F read) {
    return part(Table<Curve>().column(values, &Curve::value).column(errors, &Curve::standard_error), std::move(read));
  }
  /// Adds the columns of `table`, computed from `*pointer(s)`; stores nothing if the pointer or optional is empty.
  template <class T, class F>
  Table& part(const Table<T>& table, F pointer) {
    return family(table.specs(), [table, pointer = std::move(pointer)](const S& s, const Row& row) {
      if (const auto& t = std::invoke(pointer, s)) table.put(*t, row);
    });
  }
  /// Adds the columns of `table`, computed from each element of `parts(s)` and stored at its index along `dimension`.
  template <class T, class F>
  Table& rows(const std::string& dimension, const Table<T>& table, F parts) {
    return family(table.specs(), [table, dimension, parts = std::move(parts)](const S& s, const Row& row) {
      std::size_t i = 0;
      for (const T& t : std::invoke(parts, s)) table.put(t, row.at(dimension, i++));
    });
  }
  /// Adds the columns of `table`, computed from `parts(s)`, a list of pairs (index along `dimension`, element).
  template <class T, class F>
  Table& rows_at(const std::string& dimension, const Table<T>& table, F parts) {
    return family(table.specs(), [table, dimension, parts = std::move(parts)](const S& s, const Row& row) {
      for (const auto& [index, t] : std::invoke(parts, s)) table.put(t, row.at(dimension, index));
    });
  }

  [[nodiscard]] const std::vector<ColumnSpec>& specs() const { return specs_; }
  void put(const S& s, const Row& row) const {
    for (const auto& fill : fills_) fill(s, row);
  }

 private:
  std::vector<ColumnSpec> specs_;
  std::vector<std::function<void(const S&, const Row&)>> fills_;
};

}  // namespace periscope::dataset
