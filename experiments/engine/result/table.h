#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "sim/spec/profile.h"

namespace periscope::dataset {

/// The columns that are filled from an S: one entry declares and fills each; a column's type follows from its values.
/// specs() make a schema, put() a dataset.
template <class S>
class Table {
 public:
  using Row = Builder::Row;

  /// Columns that `fill(s, row)` puts.
  template <class F>
  Table& family(const std::vector<ColumnSpec>& specs, F fill) {
    specs_.insert(specs_.end(), specs.begin(), specs.end());
    fills_.push_back(std::move(fill));
    return *this;
  }
  /// A column whose value, or values along the dimensions that the row leaves open, are `value(s)`, of a function or a
  /// member (type_of).
  template <class F>
  Table& column(ColumnSpec spec, F value) {
    spec.type = type_of<std::remove_cvref_t<std::invoke_result_t<F, const S&>>>();
    return family({spec}, [name = spec.name, value = std::move(value)](const S& s, const Row& row) {
      row.put(name, std::invoke(value, s));
    });
  }
  /// A column that the result may lack: `value(s)` is a std::optional, and nothing is put if it is empty.
  template <class F>
  Table& column_if_any(ColumnSpec spec, F value) {
    using Value = typename std::remove_cvref_t<std::invoke_result_t<F, const S&>>::value_type;
    return part(Table<Value>().column(std::move(spec), std::identity()), std::move(value));
  }
  /// The values and the standard errors of a Curve, which `read(s)` returns as a std::optional or a pointer; nothing is
  /// put if there is none.
  template <class F>
  Table& curve(const ColumnSpec& values, const ColumnSpec& errors, F read) {
    return part(Table<Curve>().column(values, &Curve::value).column(errors, &Curve::standard_error), std::move(read));
  }
  /// The columns of `table`, filled from what `pointer(s)`, a pointer or std::optional, points to; not at all if empty.
  template <class T, class F>
  Table& part(const Table<T>& table, F pointer) {
    return family(table.specs(), [table, pointer = std::move(pointer)](const S& s, const Row& row) {
      if (const auto& t = std::invoke(pointer, s)) table.put(*t, row);
    });
  }
  /// The columns of `table`, filled from each element of the list `parts(s)`, at its position on `dimension`.
  template <class T, class F>
  Table& rows(const std::string& dimension, const Table<T>& table, F parts) {
    return family(table.specs(), [table, dimension, parts = std::move(parts)](const S& s, const Row& row) {
      std::size_t i = 0;
      for (const T& t : std::invoke(parts, s)) table.put(t, row.at(dimension, i++));
    });
  }
  /// The columns of `table`, filled from each element of `parts(s)`, a list of (index on `dimension`, element).
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
