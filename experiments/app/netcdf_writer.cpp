#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <netcdf.h>
#include <netcdf_mem.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>

#include "experiments/app/netcdf_file.h"
#include "experiments/engine/result/serialize.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

// clang-format off
/// Empty NetCDF-4 file of HDF5 1.10 (H5F_LIBVER_V18, tracked creation order, no times). nc_create_mem would use an older
/// format, which loses the order of variables and limits attributes to 64 KiB; a configuration can be longer.
constexpr unsigned char empty_file[] = {
    0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a, 2, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xef, 0, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0x94, 0x33, 0x45, 0x0f,
    0x4f, 0x48, 0x44, 0x52, 2, 0x0c, 0xb4, 2, 0x22, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0a,
    2, 0, 1, 0, 0, 0, 0, 0, 0x7e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x63, 0x28, 0xac, 0x1c,
};
// clang-format on

/// Byte offset of the file's length in an HDF5 superblock of version 2. The memory buffer is larger than the file.
constexpr std::size_t end_of_file_address = 28;

/// Turns crashes of HDF5 during this object's lifetime into a message and the exit code of a run-time failure. After a
/// failed allocation HDF5 dereferences null pointers, or calls exit and crashes in its exit handler.
/// The file is built in memory, so no partial file is left on disk.
class CrashGuard {
 public:
  explicit CrashGuard(const std::string& path)
      : text_(fmt::format("periscope: cannot write {}: HDF5 crashed, probably because memory ran out\n",
                          printable(path))) {
    message_ = text_.c_str();
    [[maybe_unused]] static const int registered = std::atexit(end_with_message);
    struct sigaction action {};
    action.sa_handler = [](int /*signal*/) { end_with_message(); };
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &before_[i]);
  }
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;
  ~CrashGuard() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
    message_ = nullptr;
  }

 private:
  static constexpr std::array signals{SIGSEGV, SIGBUS, SIGABRT};

  static void end_with_message() {
    const char* const message = message_;
    if (message == nullptr) return;
    [[maybe_unused]] const auto written = write(STDERR_FILENO, message, std::strlen(message));
    std::_Exit(static_cast<int>(ExitCode::runtime_failure));
  }

  static inline std::atomic<const char*> message_ = nullptr;
  std::string text_;
  std::array<struct sigaction, signals.size()> before_{};
};

/// NetCDF file that is built in memory, so that a full disk is detected by write_file and not inside the library.
class MemoryFile {
 public:
  explicit MemoryFile(std::string path) : path_(std::move(path)) {
    // After nc_open_memio the library owns this memory: it may reallocate it, and frees it.
    void* const memory = std::malloc(sizeof(empty_file));
    if (memory == nullptr) throw std::bad_alloc();
    std::memcpy(memory, empty_file, sizeof(empty_file));
    NC_memio content{.size = sizeof(empty_file), .memory = memory, .flags = 0};
    check(nc_open_memio("result.nc", NC_WRITE | NC_NETCDF4, &content, &id_));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (is_open_) nc_close(id_);
  }

  [[nodiscard]] int id() const { return id_; }
  void check(int status) const {
    if (status == NC_NOERR) return;
    throw Error(ExitCode::runtime_failure, fmt::format("cannot write {}: {}", path_, nc_strerror(status)));
  }
  /// Closes the file and returns its bytes.
  [[nodiscard]] std::string close() {
    is_open_ = false;
    NC_memio content{};
    check(nc_close_memio(id_, &content));
    const std::unique_ptr<void, void (*)(void*)> memory(content.memory, std::free);
    const std::string_view bytes(static_cast<const char*>(content.memory), content.size);
    std::uint64_t end = 0;
    std::memcpy(&end, bytes.substr(end_of_file_address).data(), sizeof(end));
    return std::string(bytes.substr(0, end));
  }

 private:
  std::string path_;
  int id_ = 0;
  bool is_open_ = true;
};

void put_attribute(const MemoryFile& file, int variable, const char* name, std::int64_t value) {
  const long long number = value;
  file.check(nc_put_att_longlong(file.id(), variable, name, NC_INT64, 1, &number));
}
void put_attribute(const MemoryFile& file, int variable, const char* name, double value) {
  file.check(nc_put_att_double(file.id(), variable, name, NC_DOUBLE, 1, &value));
}
void put_attribute(const MemoryFile& file, int variable, const char* name, const std::string& text) {
  const std::string valid = config::valid_utf8(text);
  file.check(nc_put_att_text(file.id(), variable, name, valid.size(), valid.c_str()));
}

/// Returns the value of a column's CF attribute "coordinates": the names of the label columns of its dimensions.
std::string labels_of(const dataset::Dataset& data, const dataset::Column& column) {
  if (column.label || column.is_coordinate()) return "";
  const auto is_on = [&](const std::string& dimension) {
    return std::ranges::find(column.dimensions, dimension) != column.dimensions.end();
  };
  std::vector<std::string> names;
  for (const dataset::Column& label : data.columns) {
    if (label.label && std::ranges::all_of(label.dimensions, is_on)) names.push_back(label.name);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

/// Defines a variable. Integers and booleans get a _FillValue for missing values; missing real numbers are NaN.
int define(const MemoryFile& file, const dataset::Dataset& data, const dataset::Column& column,
           const std::vector<int>& dimensions) {
  constexpr std::array types{NC_DOUBLE, NC_INT64, NC_UBYTE, NC_STRING};  // in the order of dataset::Type
  int id = 0;
  file.check(nc_def_var(file.id(), column.name.c_str(), types.at(column.values.index()),
                        static_cast<int>(dimensions.size()), dimensions.data(), &id));
  put_attribute(file, id, "units", column.units);
  put_attribute(file, id, "long_name", column.meaning);
  if (const std::string labels = labels_of(data, column); !labels.empty()) {
    put_attribute(file, id, "coordinates", labels);
  }
  if (column.type() == dataset::Type::integer) put_attribute(file, id, "_FillValue", dataset::missing_integer);
  if (column.type() == dataset::Type::boolean) {
    file.check(nc_put_att_uchar(file.id(), id, "_FillValue", NC_UBYTE, 1, &dataset::missing_boolean));
  }
  return id;
}

/// Writes values with explicit lengths, which set the length of unlimited dimensions.
void put_values(const MemoryFile& file, int id, const dataset::Column& column, const std::vector<std::size_t>& shape) {
  const std::vector<std::size_t> start(shape.size(), 0);
  const auto put = [&](const auto& function, auto* values) {
    file.check(function(file.id(), id, start.data(), shape.data(), values));
  };
  if (const auto* numbers = std::get_if<std::vector<double>>(&column.values)) {
    put(nc_put_vara_double, numbers->data());
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&column.values)) {
    put(nc_put_vara_longlong, std::vector<long long>(integers->begin(), integers->end()).data());
  } else if (const auto* flags = std::get_if<std::vector<std::uint8_t>>(&column.values)) {
    put(nc_put_vara_uchar, flags->data());
  } else {
    std::vector<std::string> valid;
    std::ranges::transform(std::get<std::vector<std::string>>(column.values), std::back_inserter(valid),
                           config::valid_utf8);
    std::vector<const char*> words;
    for (const std::string& word : valid) words.push_back(word.c_str());
    put(nc_put_vara_string, words.data());
  }
}

void write_content(const MemoryFile& file, const dataset::Dataset& data) {
  std::map<std::string, int> dimension_ids;
  for (const auto& [name, length, free] : data.dimensions) {
    file.check(nc_def_dim(file.id(), name.c_str(), free ? NC_UNLIMITED : length, &dimension_ids[name]));
  }
  const dataset::Attributes attributes = dataset::attributes_of(data);
  for (const auto& [name, fact] : attributes.items()) {
    if (fact.is_string()) {
      put_attribute(file, NC_GLOBAL, name.c_str(), fact.get<std::string>());
    } else if (fact.is_number_integer()) {
      put_attribute(file, NC_GLOBAL, name.c_str(), fact.get<std::int64_t>());
    } else {
      put_attribute(file, NC_GLOBAL, name.c_str(), fact.get<double>());
    }
  }
  std::vector<int> ids;
  for (const dataset::Column& column : data.columns) {
    std::vector<int> dimensions;
    for (const std::string& name : column.dimensions) dimensions.push_back(dimension_ids.at(name));
    ids.push_back(define(file, data, column, dimensions));
  }
  file.check(nc_enddef(file.id()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<std::size_t> shape;
    for (const std::string& name : data.columns[i].dimensions) shape.push_back(data.length(name));
    put_values(file, ids[i], data.columns[i], shape);
  }
}

}  // namespace

std::string write_netcdf(const std::string& path, const dataset::Dataset& data) {
  std::string bytes;
  {
    const CrashGuard guard(path);
    MemoryFile file(path);
    write_content(file, data);
    bytes = file.close();
  }
  write_file(path, bytes);
  return config::sha256_hex(bytes);
}

}  // namespace periscope::app
