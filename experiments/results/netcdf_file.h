#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace periscope {

/// A variable on named dimensions, row-major.
struct NetcdfVariable {
  std::string name;
  std::vector<std::string> dimensions;
  std::variant<std::vector<double>, std::vector<std::string>> values;
  std::string units;  ///< "1" for a pure number, "nat", "s", …; "" for text
  std::string long_name;
};

/// A NetCDF-4 file's content: what is written is what is read.
struct NetcdfDataset {
  std::vector<std::pair<std::string, std::size_t>> dimensions;
  std::vector<std::string> unlimited;  ///< those of the dimensions that other programs may make longer
  std::vector<NetcdfVariable> variables;
  nlohmann::ordered_json attributes = nlohmann::ordered_json::object();  ///< global; kept as text and numbers

  [[nodiscard]] const NetcdfVariable* find(const std::string& name) const;
};

/// Makes the file in memory and writes it as write_file does: `path` is whole, or as it was. Throws as OutputFile does.
void write_netcdf(const std::string& path, const NetcdfDataset& dataset);

}  // namespace periscope
