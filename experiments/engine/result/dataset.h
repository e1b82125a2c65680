#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/enumerators.h"

namespace periscope::dataset {

/// Type of a column's values. type_names are the names in xarray.
enum class Type { real, integer, boolean, text };
inline constexpr std::array<std::string_view, 4> type_names{"float64", "int64", "bool", "str"};
static_assert(are_names_of<Type>(type_names));
[[nodiscard]] constexpr std::string_view name_of(Type type) { return type_names[static_cast<std::size_t>(type)]; }

/// Values of a column; alternatives in the order of Type. Missing values are NaN, missing_integer, missing_boolean, "".
using Values =
    std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::uint8_t>, std::vector<std::string>>;
inline constexpr std::int64_t missing_integer = std::numeric_limits<std::int64_t>::min();
inline constexpr std::uint8_t missing_boolean = 255;
template <class T>
T missing() {
  if constexpr (std::is_same_v<T, double>) return std::numeric_limits<double>::quiet_NaN();
  if constexpr (std::is_same_v<T, std::int64_t>) return missing_integer;
  if constexpr (std::is_same_v<T, std::uint8_t>) return missing_boolean;
  return T();
}

/// Returns value `i` of a numeric column as double; NaN if it is missing.
double number_at(const Values& values, std::size_t i);
bool is_missing(const Values& values, std::size_t i);
std::size_t size_of(const Values& values);

/// Splits a string: "input placement" becomes {"input", "placement"}.
std::vector<std::string> split(std::string_view text, char separator = ' ');

struct Dimension {
  std::string name;
  std::size_t length;
  bool free = false;  ///< unlimited in NetCDF: other programs may append to it

  bool operator==(const Dimension&) const = default;
};

/// A variable with named dimensions, row-major.
struct Column {
  std::string name;
  std::vector<std::string> dimensions;
  Values values;
  std::string units;    ///< "1" for dimensionless numbers and flags, "s", …; "" for text
  std::string meaning;  ///< long_name in files
  bool label = false;   ///< see ColumnSpec

  [[nodiscard]] Type type() const { return static_cast<Type>(values.index()); }
  [[nodiscard]] bool is_coordinate() const { return dimensions.size() == 1 && dimensions.front() == name; }
};

/// Global attributes of a result, by name: strings, numbers, objects or lists, such as the configuration.
using Attributes = nlohmann::ordered_json;

/// A result, which can be written as NetCDF, CSV or JSON. Dimensions, columns and attributes are reproducible for the
/// same configuration and program, for any number of threads; `circumstances` are not.
struct Dataset {
  std::vector<Dimension> dimensions;
  std::vector<Column> columns;
  Attributes attributes = Attributes::object();
  Attributes circumstances = Attributes::object();  ///< time, machine, command line and duration of the run

  [[nodiscard]] const Column* find(std::string_view name) const;
  /// Returns the length of a dimension. Throws std::logic_error for an unknown dimension.
  [[nodiscard]] std::size_t length(std::string_view dimension) const;
};

}  // namespace periscope::dataset
