#include "experiments/results/export_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "experiments/results/netcdf_file.h"
#include "experiments/results/standard_streams.h"
#include "sim/checkpoint/destination.h"
#include "sim/checkpoint/output_file.h"

namespace periscope {
namespace {

/// RFC 4180: quotes where the text needs them.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string value_at(const NetcdfVariable& variable, std::size_t i) {
  if (const auto* numbers = std::get_if<std::vector<double>>(&variable.values)) return fmt::format("{}", (*numbers)[i]);
  return field(std::get<std::vector<std::string>>(variable.values)[i]);
}

/// The coordinate of position `i` on `dimension`: its variable's value, or the position itself.
std::string coordinate(const NetcdfDataset& data, const std::string& dimension, std::size_t i) {
  const NetcdfVariable* variable = data.find(dimension);
  return variable == nullptr ? fmt::to_string(i) : value_at(*variable, i);
}

std::size_t length_of(const NetcdfDataset& data, const std::string& dimension) {
  return std::ranges::find(data.dimensions, dimension, &std::pair<std::string, std::size_t>::first)->second;
}

void append_rows(std::string& text, const NetcdfDataset& data, const NetcdfVariable& variable) {
  std::size_t size = 1;
  for (const std::string& d : variable.dimensions) size *= length_of(data, d);
  for (std::size_t flat = 0; flat < size; ++flat) {
    std::vector<std::string> columns(data.dimensions.size());
    std::size_t rest = flat;
    for (std::size_t k = variable.dimensions.size(); k-- > 0;) {
      const std::string& dimension = variable.dimensions[k];
      const std::size_t length = length_of(data, dimension);
      const auto column = std::ranges::find(data.dimensions, dimension, &std::pair<std::string, std::size_t>::first);
      columns[static_cast<std::size_t>(column - data.dimensions.begin())] = coordinate(data, dimension, rest % length);
      rest /= length;
    }
    text += variable.name;
    for (const std::string& column : columns) text += ',' + column;
    text += ',' + value_at(variable, flat) + '\n';
  }
}

/// What would be in the way of writing is said before anything is read.
void require_place(const std::string& file, const std::string& csv) {
  if (same_file(file, csv)) {
    throw ConfigError(fmt::format("--csv {}: this is the result file itself; expected another name", csv));
  }
  if (!destination_of(csv).is_stream) const OutputFile trial(csv);
}

}  // namespace

ExitCode export_csv(const std::string& file, const std::string& csv) {
  if (csv != "-") require_place(file, csv);
  const NetcdfDataset data = read_netcdf(file);
  std::string text = "variable";
  for (const auto& [name, length] : data.dimensions) text += ',' + name;
  text += ",value\n";
  for (const NetcdfVariable& variable : data.variables) {
    const bool is_coordinate = variable.dimensions.size() == 1 && variable.dimensions[0] == variable.name;
    if (!is_coordinate) append_rows(text, data, variable);
  }
  if (csv == "-") {
    print_result(text);
  } else {
    write_file_or_stream(csv, text);
  }
  return ExitCode::ok;
}

}  // namespace periscope
