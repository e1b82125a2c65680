#include "experiments/results/netcdf_file.h"

#include <fmt/format.h>
#include <netcdf.h>

#include <algorithm>

#include "sim/spec/error.h"

namespace periscope {
namespace {

/// Closes the file however the scope ends.
class Handle {
 public:
  explicit Handle(int id) : id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { nc_close(id_); }
  [[nodiscard]] int id() const { return id_; }

 private:
  int id_;
};

void check_read(int status, const std::string& path) {
  if (status != NC_NOERR) {
    throw InputError(fmt::format("{}: expected a NetCDF-4 file of Periscope: {}", path, nc_strerror(status)));
  }
}

std::string get_text(int file, int variable, const char* name, const std::string& path) {
  std::size_t length = 0;
  if (nc_inq_attlen(file, variable, name, &length) != NC_NOERR) return {};
  std::string text(length, '\0');
  check_read(nc_get_att_text(file, variable, name, text.data()), path);
  return text;
}

nlohmann::ordered_json read_attributes(int file, const std::string& path) {
  nlohmann::ordered_json attributes = nlohmann::ordered_json::object();
  int count = 0;
  check_read(nc_inq_natts(file, &count), path);
  for (int i = 0; i < count; ++i) {
    char name[NC_MAX_NAME + 1];
    check_read(nc_inq_attname(file, NC_GLOBAL, i, name), path);
    nc_type type = NC_CHAR;
    check_read(nc_inq_atttype(file, NC_GLOBAL, name, &type), path);
    if (type == NC_CHAR) {
      attributes[name] = get_text(file, NC_GLOBAL, name, path);
    } else if (type == NC_INT64) {
      long long number = 0;
      check_read(nc_get_att_longlong(file, NC_GLOBAL, name, &number), path);
      attributes[name] = number;
    } else {
      double number = 0.0;
      check_read(nc_get_att_double(file, NC_GLOBAL, name, &number), path);
      attributes[name] = number;
    }
  }
  return attributes;
}

NetcdfVariable read_variable(int file, int id, const NetcdfDataset& dataset, const std::string& path) {
  char name[NC_MAX_NAME + 1];
  nc_type type = NC_DOUBLE;
  int rank = 0;
  int dims[NC_MAX_VAR_DIMS];
  check_read(nc_inq_var(file, id, name, &type, &rank, dims, nullptr), path);
  NetcdfVariable v{.name = name,
                   .dimensions = {},
                   .values = {},
                   .units = get_text(file, id, "units", path),
                   .long_name = get_text(file, id, "long_name", path)};
  std::size_t size = 1;
  for (int i = 0; i < rank; ++i) {
    const auto& [dimension, length] = dataset.dimensions.at(static_cast<std::size_t>(dims[i]));
    v.dimensions.push_back(dimension);
    size *= length;
  }
  if (type == NC_STRING) {
    std::vector<char*> words(size);
    check_read(nc_get_var_string(file, id, words.data()), path);
    v.values = std::vector<std::string>(words.begin(), words.end());
    nc_free_string(size, words.data());
  } else {
    std::vector<double> numbers(size);
    check_read(nc_get_var_double(file, id, numbers.data()), path);
    v.values = std::move(numbers);
  }
  return v;
}

}  // namespace

const NetcdfVariable* NetcdfDataset::find(const std::string& name) const {
  const auto it = std::ranges::find(variables, name, &NetcdfVariable::name);
  return it == variables.end() ? nullptr : &*it;
}

NetcdfDataset read_netcdf(const std::string& path) {
  int id = 0;
  check_read(nc_open(path.c_str(), NC_NOWRITE, &id), path);
  const Handle file(id);
  NetcdfDataset dataset;
  int dimension_count = 0;
  int variable_count = 0;
  check_read(nc_inq(file.id(), &dimension_count, &variable_count, nullptr, nullptr), path);
  for (int i = 0; i < dimension_count; ++i) {
    char name[NC_MAX_NAME + 1];
    std::size_t length = 0;
    check_read(nc_inq_dim(file.id(), i, name, &length), path);
    dataset.dimensions.emplace_back(name, length);
  }
  int free_count = 0;
  int free_ids[NC_MAX_DIMS];
  check_read(nc_inq_unlimdims(file.id(), &free_count, free_ids), path);
  for (int i = 0; i < free_count; ++i) {
    dataset.unlimited.push_back(dataset.dimensions.at(static_cast<std::size_t>(free_ids[i])).first);
  }
  dataset.attributes = read_attributes(file.id(), path);
  for (int i = 0; i < variable_count; ++i) dataset.variables.push_back(read_variable(file.id(), i, dataset, path));
  return dataset;
}

}  // namespace periscope
