#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "experiments/sweeps/store.h"

namespace periscope::sweeps {

/// A value of a coordinate or label.
using Coordinate = std::variant<double, std::int64_t, std::string>;

Coordinate coordinate_at(const dataset::Values& values, std::size_t i);
void set_value(dataset::Values& values, std::size_t i, const Coordinate& value);
/// Returns `size` missing values.
dataset::Values missing_values(dataset::Type type, std::size_t size);

/// Returns the parts of two configurations that are equal. Elements of lists that differ become null. Lists of
/// different lengths become one element, the part common to all elements.
Json common_part(const Json& a, const Json& b);

/// A dimension of the cells' results.
struct OwnDimension {
  std::string name;
  bool free = false;
  std::optional<std::size_t> axis;  ///< the axis that provides this dimension; every cell then has length 1
  std::size_t longest = 0;
  bool is_ragged = false;  ///< lengths differ
  bool varies = false;     ///< the coordinate differs between cells of the same length
  bool too_many = false;
  std::optional<dataset::Values> coordinate = {};  ///< of the first cell
  std::vector<Coordinate> all = {};                ///< distinct coordinates, in the order of the result
  std::map<Coordinate, std::size_t> seen = {};     ///< index in `all`

  [[nodiscard]] bool has_union() const { return is_ragged && coordinate.has_value(); }
  [[nodiscard]] std::size_t length() const { return has_union() ? all.size() : longest; }
  /// Returns true if the coordinate becomes a column of the cells.
  [[nodiscard]] bool is_spread() const { return varies && !is_ragged && !axis; }
};

/// A label by the coordinate or, if the dimension has none, by the index.
struct SharedLabel {
  std::map<Coordinate, Coordinate> values;
  bool differs = false;  ///< between cells: becomes a column of the cells
};

/// Decodes the layouts of cells; keeps the last one, as neighbouring cells often share it.
class LayoutDecoder {
 public:
  /// Returns the cell's dataset without the values of its data columns; valid until the next call. Throws InputError.
  const dataset::Dataset& decode(const StoredCell& cell);
  /// Changes when `decode` returns another layout.
  [[nodiscard]] std::size_t version() const { return version_; }

 private:
  std::shared_ptr<const std::string> layout_, coordinates_;
  dataset::Dataset empty_, data_;
  std::size_t version_ = 0;
};

/// Columns, dimensions, labels and attributes that the cells of a sweep share.
struct CellSurvey {
  explicit CellSurvey(const dataset::Schema& schema);
  /// Adds the layout of a cell.
  void add(const dataset::Dataset& data);
  /// Orders the coordinates. Throws InputError if a dimension has too many.
  void finish();
  /// Lets axes of placements and inputs use the dimension of the result; replaces their `names`.
  void use_axes(const std::vector<GridAxis>& axes, std::vector<std::string>& names);

  const dataset::Schema& schema;
  std::vector<OwnDimension> own;      ///< in the order of the schema
  std::vector<std::uint8_t> present;  ///< by column of the schema: whether some cell has it
  std::map<std::string, SharedLabel> labels = {};
  dataset::Attributes attributes = {};  ///< null without cells

 private:
  void add_label(const dataset::Column& column, const dataset::Column* coordinate);
};

}  // namespace periscope::sweeps
