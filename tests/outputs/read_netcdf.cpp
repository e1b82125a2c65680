#include "tests/outputs/read_netcdf.h"

#include <netcdf.h>
#include <netcdf_mem.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

using Name = std::array<char, NC_MAX_NAME + 1>;

void check(int status) {
  if (status != NC_NOERR) throw std::runtime_error(nc_strerror(status));
}

std::string text(int file, int variable, const char* name) {
  std::size_t length = 0;
  check(nc_inq_attlen(file, variable, name, &length));
  std::string value(length, '\0');
  check(nc_get_att_text(file, variable, name, value.data()));
  return value;
}

dataset::Attributes fact(int file, const char* name) {
  nc_type type = NC_NAT;
  check(nc_inq_atttype(file, NC_GLOBAL, name, &type));
  if (type == NC_CHAR) return text(file, NC_GLOBAL, name);
  if (type == NC_DOUBLE) {
    double number = 0.0;
    check(nc_get_att_double(file, NC_GLOBAL, name, &number));
    return number;
  }
  long long number = 0;
  check(nc_get_att_longlong(file, NC_GLOBAL, name, &number));
  return number;
}

dataset::Values values(int file, int id, nc_type type, std::size_t size) {
  if (type == NC_DOUBLE) {
    std::vector<double> all(size);
    check(nc_get_var_double(file, id, all.data()));
    return all;
  }
  if (type == NC_INT64) {
    std::vector<long long> all(size);
    check(nc_get_var_longlong(file, id, all.data()));
    return std::vector<std::int64_t>(all.begin(), all.end());
  }
  if (type == NC_UBYTE) {
    std::vector<std::uint8_t> all(size);
    check(nc_get_var_uchar(file, id, all.data()));
    return all;
  }
  std::vector<char*> words(size);
  check(nc_get_var_string(file, id, words.data()));
  std::vector<std::string> all(words.begin(), words.end());
  check(nc_free_string(size, words.data()));
  return all;
}

}  // namespace

dataset::Dataset read_netcdf(const std::string& path) {
  int file = 0;
  std::string bytes = bytes_of_file(path);
  check(nc_open_mem("result.nc", NC_NOWRITE, bytes.size(), bytes.data(), &file));
  int dimensions = 0, variables = 0, attributes = 0, growing = 0;
  check(nc_inq(file, &dimensions, &variables, &attributes, nullptr));
  check(nc_inq_unlimdims(file, &growing, nullptr));
  std::vector<int> free(static_cast<std::size_t>(growing));
  check(nc_inq_unlimdims(file, &growing, free.data()));
  dataset::Dataset data;
  Name name{};
  for (int d = 0; d < dimensions; ++d) {
    std::size_t length = 0;
    check(nc_inq_dim(file, d, name.data(), &length));
    data.dimensions.push_back({name.data(), length, std::ranges::find(free, d) != free.end()});
  }
  for (int a = 0; a < attributes; ++a) {
    check(nc_inq_attname(file, NC_GLOBAL, a, name.data()));
    data.attributes[name.data()] = fact(file, name.data());
  }
  for (int v = 0; v < variables; ++v) {
    nc_type type = NC_NAT;
    int rank = 0;
    std::array<int, NC_MAX_VAR_DIMS> on{};
    check(nc_inq_var(file, v, name.data(), &type, &rank, on.data(), nullptr));
    dataset::Column& column = data.columns.emplace_back();
    column.name = name.data();
    std::size_t size = 1;
    for (int d = 0; d < rank; ++d) {
      const dataset::Dimension& dimension = data.dimensions[static_cast<std::size_t>(on[static_cast<std::size_t>(d)])];
      column.dimensions.push_back(dimension.name);
      size *= dimension.length;
    }
    column.units = text(file, v, "units");
    column.meaning = text(file, v, "long_name");
    column.values = values(file, v, type, size);
  }
  check(nc_close(file));
  return data;
}

}  // namespace periscope::testing
