#include <fmt/format.h>
#include <netcdf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "experiments/results/json_text.h"
#include "experiments/results/netcdf_file.h"
#include "sim/checkpoint/output_file.h"
#include "sim/spec/error.h"

namespace periscope {
namespace {

/// A dataset that is made in memory, so that a full disk is found by our own writing and not within the library. The
/// memory has a name that the library can open as any other file; what nc_create_mem makes has an older form, which
/// forgets the order of variables and holds no attribute of 64 KiB or more.
class MemoryFile {
 public:
  explicit MemoryFile(std::string of) : path_(std::move(of)), memory_(::memfd_create("result", MFD_CLOEXEC)) {
    if (memory_ < 0) fail(std::strerror(errno));
    const int status = nc_create(fmt::format("/proc/self/fd/{}", memory_).c_str(), NC_NETCDF4 | NC_CLOBBER, &id_);
    if (status != NC_NOERR) ::close(memory_);
    check(status);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (is_open_) nc_close(id_);
    ::close(memory_);
  }

  [[nodiscard]] int id() const { return id_; }
  void check(int status) const {
    if (status != NC_NOERR) fail(nc_strerror(status));
  }
  /// The bytes of the finished file.
  [[nodiscard]] std::string close() {
    is_open_ = false;
    check(nc_close(id_));
    std::string bytes(static_cast<std::size_t>(::lseek(memory_, 0, SEEK_END)), '\0');
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::pread(memory_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (n <= 0) fail(std::strerror(errno));
      done += static_cast<std::size_t>(n);
    }
    return bytes;
  }

 private:
  [[noreturn]] void fail(const char* why) const {
    throw Error(ExitCode::runtime_failure, fmt::format("cannot write {}: {}", path_, why));
  }

  std::string path_;
  int memory_;
  int id_ = 0;
  bool is_open_ = true;
};

void put_text(const MemoryFile& file, int variable, const char* name, const std::string& text) {
  file.check(nc_put_att_text(file.id(), variable, name, text.size(), text.c_str()));
}

void put_attributes(const MemoryFile& file, const nlohmann::ordered_json& attributes) {
  for (const auto& [name, value] : attributes.items()) {
    if (value.is_number_integer()) {
      const long long number = value.get<long long>();
      file.check(nc_put_att_longlong(file.id(), NC_GLOBAL, name.c_str(), NC_INT64, 1, &number));
    } else if (value.is_number()) {
      const double number = value.get<double>();
      file.check(nc_put_att_double(file.id(), NC_GLOBAL, name.c_str(), NC_DOUBLE, 1, &number));
    } else {
      put_text(file, NC_GLOBAL, name.c_str(),
               value.is_string() ? valid_utf8(value.get<std::string>()) : json_text(value));
    }
  }
}

/// With explicit lengths, which make unlimited dimensions as long as they are.
void put_values(const MemoryFile& file, int id, const NetcdfVariable& variable, const std::vector<std::size_t>& shape) {
  const std::vector<std::size_t> start(shape.size(), 0);
  if (const auto* numbers = std::get_if<std::vector<double>>(&variable.values)) {
    file.check(nc_put_vara_double(file.id(), id, start.data(), shape.data(), numbers->data()));
    return;
  }
  std::vector<const char*> words;
  for (const std::string& word : std::get<std::vector<std::string>>(variable.values)) words.push_back(word.c_str());
  file.check(nc_put_vara_string(file.id(), id, start.data(), shape.data(), words.data()));
}

void write_content(const MemoryFile& file, const NetcdfDataset& dataset) {
  std::map<std::string, int> dimension_ids;
  std::map<std::string, std::size_t> length_of;
  for (const auto& [name, length] : dataset.dimensions) {
    const bool free = std::ranges::find(dataset.unlimited, name) != dataset.unlimited.end();
    file.check(nc_def_dim(file.id(), name.c_str(), free ? NC_UNLIMITED : length, &dimension_ids[name]));
    length_of[name] = length;
  }
  put_attributes(file, dataset.attributes);
  std::vector<int> ids;
  for (const NetcdfVariable& v : dataset.variables) {
    std::vector<int> dims;
    for (const std::string& name : v.dimensions) dims.push_back(dimension_ids.at(name));
    const nc_type type = std::holds_alternative<std::vector<double>>(v.values) ? NC_DOUBLE : NC_STRING;
    ids.push_back(0);
    file.check(nc_def_var(file.id(), v.name.c_str(), type, static_cast<int>(dims.size()), dims.data(), &ids.back()));
    put_text(file, ids.back(), "units", v.units);
    put_text(file, ids.back(), "long_name", v.long_name);
  }
  file.check(nc_enddef(file.id()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<std::size_t> shape;
    for (const std::string& name : dataset.variables[i].dimensions) shape.push_back(length_of.at(name));
    put_values(file, ids[i], dataset.variables[i], shape);
  }
}

}  // namespace

void write_netcdf(const std::string& path, const NetcdfDataset& dataset) {
  MemoryFile file(path);
  write_content(file, dataset);
  write_file(path, file.close());
}

}  // namespace periscope
