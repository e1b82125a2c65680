#include "experiments/app/tools/export_csv.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "experiments/app/netcdf_reader.h"
#include "experiments/app/standard_streams.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/file_error.h"
#include "sim/files/destination.h"
#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

constexpr std::string_view first_column = "variable";

/// RFC 4180: quotes where the text needs them.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

using dataset::Column;
using dataset::Dataset;

std::vector<std::string> fields_of(const Column& column) {
  std::vector<std::string> fields;
  if (const auto* words = std::get_if<std::vector<std::string>>(&column.values)) {
    for (const std::string& word : *words) fields.push_back(field(word));
    return fields;
  }
  const auto* integers = std::get_if<std::vector<std::int64_t>>(&column.values);
  for (std::size_t i = 0; i < dataset::size_of(column.values); ++i) {
    const bool whole = integers != nullptr && !dataset::is_missing(column.values, i);
    fields.push_back(whole ? fmt::to_string((*integers)[i]) : fmt::to_string(dataset::number_at(column.values, i)));
  }
  return fields;
}

/// A dimension of the file: what its column of CSV says at each position, the value of its coordinate or else the
/// position itself.
struct Axis {
  std::string name;
  std::size_t length;
  std::vector<std::string> coordinates;

  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::string& c : coordinates) sum += c.size();
    return sum;
  }
};

std::vector<Axis> axes_of(const Dataset& data) {
  std::vector<Axis> axes;
  for (const auto& [name, length, free] : data.dimensions) {
    Axis axis{.name = name, .length = length, .coordinates = {}};
    if (const Column* column = data.find(name)) {
      axis.coordinates = fields_of(*column);
    } else {
      for (std::size_t i = 0; i < length; ++i) axis.coordinates.push_back(fmt::to_string(i));
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

/// The columns, among those of all axes, that a variable's own dimensions have.
std::vector<std::size_t> columns_of(const Column& variable, const std::vector<Axis>& axes) {
  std::vector<std::size_t> columns;
  for (const std::string& d : variable.dimensions) {
    columns.push_back(static_cast<std::size_t>(std::ranges::find(axes, d, &Axis::name) - axes.begin()));
  }
  return columns;
}

/// What the rows of a variable come to, within a percent: as a number of the double type, which does not overflow.
double bytes_of_rows(const Column& variable, const std::vector<Axis>& axes) {
  double rows = 1.0;
  double each = static_cast<double>(variable.name.size() + axes.size() + 2);
  for (const std::size_t column : columns_of(variable, axes)) {
    const Axis& axis = axes[column];
    rows *= static_cast<double>(axis.length);
    if (axis.length > 0) each += static_cast<double>(axis.bytes()) / static_cast<double>(axis.length);
  }
  constexpr double number = 24.0;  // of the longest double
  double values = rows * number;
  if (const auto* words = std::get_if<std::vector<std::string>>(&variable.values)) {
    values = 0.0;
    for (const std::string& word : *words) values += static_cast<double>(word.size());
  }
  return rows * each + values;
}

/// The bytes of a variable's values as this process holds them.
double bytes_held(const Column& variable) {
  const auto* words = std::get_if<std::vector<std::string>>(&variable.values);
  if (words == nullptr) return 8.0 * static_cast<double>(dataset::size_of(variable.values));
  double bytes = 0.0;
  for (const std::string& word : *words) bytes += 8.0 + static_cast<double>(word.size());
  return bytes;
}

/// A row repeats its variable's name and coordinates. Of a result that makes some 15 times the size of its values; a
/// file that somebody made for it, with a long word as a coordinate, could make the square.
void refuse_swelling(const std::string& file, const Dataset& data, const std::vector<Axis>& axes) {
  constexpr double most_growth = 100.0;
  constexpr double harmless = 1e8;
  double held = 0.0;
  double written = 0.0;
  for (const Column& v : data.columns) {
    held += bytes_held(v);
    written += bytes_of_rows(v, axes);
    if (written > harmless + most_growth * held) {
      throw InputError(
          fmt::format("{}: variable {}: with it the CSV would have {:.1e} bytes for {:.1e} bytes of values", file,
                      in_quotes(v.name), written, held));
    }
  }
}

void append_rows(std::string& text, const Column& variable, const std::vector<Axis>& axes) {
  const std::vector<std::size_t> columns = columns_of(variable, axes);
  const std::vector<std::string> values = fields_of(variable);
  const std::string name = field(variable.name);
  std::vector<const std::string*> row(axes.size(), nullptr);
  for (std::size_t flat = 0; flat < values.size(); ++flat) {
    std::size_t rest = flat;
    for (std::size_t k = columns.size(); k-- > 0;) {
      const Axis& axis = axes[columns[k]];
      row[columns[k]] = &axis.coordinates[rest % axis.length];
      rest /= axis.length;
    }
    text += name;
    for (const std::string* coordinate : row) {
      text += ',';
      if (coordinate != nullptr) text += *coordinate;
    }
    text += ',' + values[flat] + '\n';
  }
}

/// Whether there is nothing under that name, or a file that is empty or begins as ours do.
bool may_be_replaced(const std::string& csv) {
  std::ifstream old(csv, std::ios::binary);
  std::string start(first_column.size(), '\0');
  old.read(start.data(), static_cast<std::streamsize>(start.size()));
  return old.gcount() == 0 || start == first_column;
}

/// What would be in the way of writing is said before anything is read.
void require_place(const std::string& file, const std::string& csv, bool force) {
  if (same_file(file, csv)) {
    throw ConfigError(fmt::format("--csv {}: this is the result file itself; expected another name", csv));
  }
  if (destination_of(csv).is_stream) return;
  if (!force && !may_be_replaced(csv)) {
    throw ConfigError(fmt::format("--csv {}: found a file that is no CSV; --force overwrites it", csv));
  }
  const OutputFile trial(csv);
}

}  // namespace

std::string csv_of(const std::string& file) {
  const Dataset data = read_netcdf(file);
  const std::vector<Axis> axes = axes_of(data);
  refuse_swelling(file, data, axes);
  std::string text(first_column);
  for (const Axis& axis : axes) text += ',' + field(axis.name);
  text += ",value\n";
  for (const Column& variable : data.columns) {
    if (!variable.is_coordinate()) append_rows(text, variable, axes);
  }
  return text;
}

ExitCode export_csv(const std::string& file, const std::string& csv, bool force) {
  if (csv != "-") require_place(file, csv, force);
  const std::string text = csv_of(file);
  if (csv == "-") {
    print_result(isatty(STDOUT_FILENO) == 1 ? printable(text, Layout::lines) : text);
  } else {
    write_file_or_stream(csv, text);
  }
  return ExitCode::ok;
}

}  // namespace periscope::app
