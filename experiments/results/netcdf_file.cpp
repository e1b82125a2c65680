#include "experiments/results/netcdf_file.h"

#include <fmt/format.h>
#include <netcdf.h>

#include <algorithm>
#include <map>

#include "experiments/results/atomic_file.h"
#include "experiments/results/json_text.h"
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

void check_write(int status, const std::string& path) {
  if (status != NC_NOERR) {
    throw Error(ExitCode::runtime_failure, fmt::format("cannot write {}: {}", path, nc_strerror(status)));
  }
}

void check_read(int status, const std::string& path) {
  if (status != NC_NOERR) {
    throw InputError(fmt::format("{}: expected a NetCDF-4 file of Periscope: {}", path, nc_strerror(status)));
  }
}

void put_text(int file, int variable, const char* name, const std::string& text, const std::string& path) {
  check_write(nc_put_att_text(file, variable, name, text.size(), text.c_str()), path);
}

void put_attributes(int file, const nlohmann::ordered_json& attributes, const std::string& path) {
  for (const auto& [name, value] : attributes.items()) {
    if (value.is_number_integer()) {
      const long long number = value.get<long long>();
      check_write(nc_put_att_longlong(file, NC_GLOBAL, name.c_str(), NC_INT64, 1, &number), path);
    } else if (value.is_number()) {
      const double number = value.get<double>();
      check_write(nc_put_att_double(file, NC_GLOBAL, name.c_str(), NC_DOUBLE, 1, &number), path);
    } else {
      put_text(file, NC_GLOBAL, name.c_str(),
               value.is_string() ? valid_utf8(value.get<std::string>()) : json_text(value), path);
    }
  }
}

/// With explicit lengths, which make unlimited dimensions as long as they are.
void put_values(int file, int id, const NetcdfVariable& variable, const std::vector<std::size_t>& shape,
                const std::string& path) {
  const std::vector<std::size_t> start(shape.size(), 0);
  if (const auto* numbers = std::get_if<std::vector<double>>(&variable.values)) {
    check_write(nc_put_vara_double(file, id, start.data(), shape.data(), numbers->data()), path);
    return;
  }
  std::vector<const char*> words;
  for (const std::string& word : std::get<std::vector<std::string>>(variable.values)) words.push_back(word.c_str());
  check_write(nc_put_vara_string(file, id, start.data(), shape.data(), words.data()), path);
}

void write_content(int file, const NetcdfDataset& dataset, const std::string& path) {
  std::map<std::string, int> dimension_ids;
  std::map<std::string, std::size_t> length_of;
  for (const auto& [name, length] : dataset.dimensions) {
    const bool free = std::ranges::find(dataset.unlimited, name) != dataset.unlimited.end();
    check_write(nc_def_dim(file, name.c_str(), free ? NC_UNLIMITED : length, &dimension_ids[name]), path);
    length_of[name] = length;
  }
  put_attributes(file, dataset.attributes, path);
  std::vector<int> ids;
  for (const NetcdfVariable& v : dataset.variables) {
    std::vector<int> dims;
    for (const std::string& name : v.dimensions) dims.push_back(dimension_ids.at(name));
    const nc_type type = std::holds_alternative<std::vector<double>>(v.values) ? NC_DOUBLE : NC_STRING;
    ids.push_back(0);
    check_write(nc_def_var(file, v.name.c_str(), type, static_cast<int>(dims.size()), dims.data(), &ids.back()), path);
    put_text(file, ids.back(), "units", v.units, path);
    put_text(file, ids.back(), "long_name", v.long_name, path);
  }
  check_write(nc_enddef(file), path);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<std::size_t> shape;
    for (const std::string& name : dataset.variables[i].dimensions) shape.push_back(length_of.at(name));
    put_values(file, ids[i], dataset.variables[i], shape, path);
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

void write_netcdf(const std::string& path, const NetcdfDataset& dataset) {
  write_atomically(path, [&](const std::string& temporary) {
    int id = 0;
    check_write(nc_create(temporary.c_str(), NC_NETCDF4 | NC_CLOBBER, &id), path);
    const Handle file(id);
    write_content(file.id(), dataset, path);
    check_write(nc_sync(file.id()), path);
  });
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
