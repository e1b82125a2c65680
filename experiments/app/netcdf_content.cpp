#include "experiments/app/netcdf_content.h"

#include <fmt/format.h>
#include <netcdf.h>
#include <netcdf_mem.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/checkpoint/file_error.h"

namespace periscope::app {
namespace {

using Name = std::array<char, NC_MAX_NAME + 1>;

/// More than any result has, and so few that a row of CSV, which has a field for each, stays short.
constexpr int most_dimensions = 64;
constexpr std::size_t bytes_per_string = 16;  // HDF5 stores a string as its length, a heap and a place there

class Handle {
 public:
  explicit Handle(int id) : id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { nc_close(id_); }

 private:
  int id_;
};

void check(int status, const std::string& what) {
  if (status != NC_NOERR) throw InputError(fmt::format("{}: {}", what, nc_strerror(status)));
}

[[noreturn]] void refuse(const std::string& what, const std::string& found) {
  throw InputError(fmt::format("{}: {}", what, found));
}

bool is_whole(nc_type type) {
  return (type >= NC_BYTE && type <= NC_INT && type != NC_CHAR) || (type >= NC_UBYTE && type <= NC_UINT64);
}
bool is_real(nc_type type) { return type == NC_FLOAT || type == NC_DOUBLE; }

std::string type_name(nc_type type) {
  constexpr std::array names{"no type", "byte",   "char", "short", "int",    "float", "double",
                             "ubyte",   "ushort", "uint", "int64", "uint64", "string"};
  return type >= 0 && type < std::ssize(names) ? names[static_cast<std::size_t>(type)]
                                               : fmt::format("type {} of a user", type);
}

class Content {
 public:
  Content(int file, std::size_t size) : file_(file), room_(size), size_(size) {}

  void read(const std::function<void(const nlohmann::json&)>& emit) {
    refuse_groups_and_types();
    read_dimensions();
    nlohmann::json head{
        {"dimensions", nlohmann::json::array()}, {"unlimited", unlimited()}, {"attributes", nlohmann::json::array()}};
    for (const Dimension& d : dimensions_) head["dimensions"].push_back({d.name, d.length});
    head["attributes"] = attributes();
    emit(head);
    int count = 0;
    check(nc_inq_varids(file_, &count, nullptr), "variables");
    std::vector<int> ids(static_cast<std::size_t>(count));
    check(nc_inq_varids(file_, &count, ids.data()), "variables");
    for (const int id : ids) emit(variable(id));
  }

 private:
  struct Dimension {
    int id;
    std::string name;
    std::size_t length;
  };

  void refuse_groups_and_types() const {
    int count = 0;
    check(nc_inq_grps(file_, &count, nullptr), "groups");
    if (count > 0) refuse("groups", fmt::format("{} found, expected none", count));
    check(nc_inq_typeids(file_, &count, nullptr), "types");
    if (count > 0) refuse("types", fmt::format("{} types of a user found, expected none", count));
  }

  void read_dimensions() {
    int count = 0;
    check(nc_inq_dimids(file_, &count, nullptr, 0), "dimensions");
    if (count > most_dimensions)
      refuse("dimensions", fmt::format("{} found, expected at most {}", count, most_dimensions));
    std::vector<int> ids(static_cast<std::size_t>(count));
    check(nc_inq_dimids(file_, &count, ids.data(), 0), "dimensions");
    for (const int id : ids) {
      Name name{};
      std::size_t length = 0;
      check(nc_inq_dim(file_, id, name.data(), &length), fmt::format("dimension {}", id));
      // A dimension that no variable has may be of any length, but no result has such a one.
      if (length > size_) {
        refuse(fmt::format("dimension {}", in_quotes(name.data())),
               fmt::format("its length is {}, more than the file's {} bytes", length, size_));
      }
      dimensions_.push_back({id, name.data(), length});
    }
  }

  [[nodiscard]] const Dimension& dimension(int id, const std::string& what) const {
    const auto it = std::ranges::find(dimensions_, id, &Dimension::id);
    if (it == dimensions_.end()) refuse(what, fmt::format("it is on a dimension {} that the file does not have", id));
    return *it;
  }

  [[nodiscard]] nlohmann::json unlimited() const {
    int count = 0;
    check(nc_inq_unlimdims(file_, &count, nullptr), "unlimited dimensions");
    std::vector<int> ids(static_cast<std::size_t>(count));
    check(nc_inq_unlimdims(file_, &count, ids.data()), "unlimited dimensions");
    nlohmann::json names = nlohmann::json::array();
    for (const int id : ids) names.push_back(dimension(id, "unlimited dimensions").name);
    return names;
  }

  /// Counts what is read against the file's size: nothing in it stands for more than its own bytes.
  void take(std::size_t bytes, const std::string& what) {
    if (bytes > room_) {
      refuse(what, fmt::format("with it the content is larger than the file's {} bytes; expected a file without "
                               "compression (nccopy -d 0 makes one)",
                               size_));
    }
    room_ -= bytes;
  }

  std::string text(int variable, const char* name, const std::string& what) {
    nc_type type = NC_NAT;
    std::size_t length = 0;
    check(nc_inq_att(file_, variable, name, &type, &length), what);
    if (type != NC_CHAR) refuse(what, fmt::format("it is of type {}, expected text", type_name(type)));
    take(length, what);
    std::string value(length, '\0');
    if (length > 0) check(nc_get_att_text(file_, variable, name, value.data()), what);
    return value;
  }

  /// Global ones: text, or one number.
  nlohmann::json attributes() {
    nlohmann::json all = nlohmann::json::array();
    int count = 0;
    check(nc_inq_natts(file_, &count), "attributes");
    for (int i = 0; i < count; ++i) {
      Name name{};
      check(nc_inq_attname(file_, NC_GLOBAL, i, name.data()), fmt::format("attribute {}", i));
      const std::string what = fmt::format("attribute {}", in_quotes(name.data()));
      nc_type type = NC_NAT;
      std::size_t length = 0;
      check(nc_inq_att(file_, NC_GLOBAL, name.data(), &type, &length), what);
      if (type == NC_CHAR) {
        all.push_back({name.data(), text(NC_GLOBAL, name.data(), what)});
        continue;
      }
      if (!is_whole(type) && !is_real(type)) {
        refuse(what, fmt::format("it is of type {}, expected text or one number", type_name(type)));
      }
      if (length != 1) refuse(what, fmt::format("it has {} numbers, expected text or one number", length));
      if (is_whole(type)) {
        long long number = 0;
        check(nc_get_att_longlong(file_, NC_GLOBAL, name.data(), &number), what);
        all.push_back({name.data(), number});
      } else {
        double number = 0.0;
        check(nc_get_att_double(file_, NC_GLOBAL, name.data(), &number), what);
        all.push_back({name.data(), number});
      }
    }
    return all;
  }

  /// An attribute that may be missing.
  std::string text_or_none(int variable, const char* name, const std::string& what) {
    if (nc_inq_attid(file_, variable, name, nullptr) == NC_ENOTATT) return {};
    return text(variable, name, fmt::format("{}, attribute {}", what, name));
  }

  nlohmann::json variable(int id) {
    Name name{};
    check(nc_inq_varname(file_, id, name.data()), fmt::format("variable {}", id));
    const std::string what = fmt::format("variable {}", in_quotes(name.data()));
    nc_type type = NC_NAT;
    int rank = 0;
    check(nc_inq_vartype(file_, id, &type), what);
    check(nc_inq_varndims(file_, id, &rank), what);
    if (type != NC_STRING && !is_whole(type) && !is_real(type)) {
      refuse(what, fmt::format("it is of type {}, expected numbers or strings", type_name(type)));
    }
    if (rank > most_dimensions)
      refuse(what, fmt::format("it has {} dimensions, expected at most {}", rank, most_dimensions));
    std::vector<int> on(static_cast<std::size_t>(rank));
    check(nc_inq_vardimid(file_, id, on.data()), what);
    nlohmann::json json{{"name", name.data()},
                        {"dimensions", nlohmann::json::array()},
                        {"units", text_or_none(id, "units", what)},
                        {"long_name", text_or_none(id, "long_name", what)}};
    std::size_t element = sizeof(double);
    if (type == NC_STRING) {
      element = bytes_per_string;
    } else {
      check(nc_inq_type(file_, type, nullptr, &element), what);
    }
    std::size_t count = 1;
    for (const int d : on) {
      const Dimension& along = dimension(d, what);
      json["dimensions"].push_back(along.name);
      if (along.length > 0 && count > std::numeric_limits<std::size_t>::max() / bytes_per_string / along.length) {
        refuse(what, fmt::format("it has more values than the file's {} bytes", size_));
      }
      count *= along.length;
    }
    refuse_odd_coordinate(name.data(), on, what);
    take(count * element, what);
    values(id, type, count, what, json);
    return json;
  }

  /// A variable with the name of a dimension gives the values along it, so it is on that one alone.
  void refuse_odd_coordinate(const std::string& name, const std::vector<int>& on, const std::string& what) const {
    const auto own = std::ranges::find(dimensions_, name, &Dimension::name);
    if (own == dimensions_.end()) return;
    if (on.size() != 1 || on.front() != own->id) {
      refuse(what, fmt::format("it has the name of a dimension and is not on that one alone, expected its {} values",
                               own->length));
    }
  }

  void values(int id, nc_type type, std::size_t count, const std::string& what, nlohmann::json& json) {
    const auto bytes_of = [](const auto& list) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(list.data());
      return nlohmann::json::binary({bytes, bytes + list.size() * sizeof(list[0])});
    };
    if (type == NC_UBYTE) {
      std::vector<std::uint8_t> flags(count);
      if (count > 0) check(nc_get_var_uchar(file_, id, flags.data()), what);
      json["flags"] = bytes_of(flags);
      return;
    }
    if (is_whole(type)) {
      std::vector<long long> numbers(count);
      if (count > 0) check(nc_get_var_longlong(file_, id, numbers.data()), what);
      json["integers"] = bytes_of(numbers);
      return;
    }
    if (type != NC_STRING) {
      std::vector<double> numbers(count);
      if (count > 0) check(nc_get_var_double(file_, id, numbers.data()), what);
      json["numbers"] = bytes_of(numbers);
      return;
    }
    std::vector<char*> words(count, nullptr);
    if (count > 0) check(nc_get_var_string(file_, id, words.data()), what);
    json["words"] = nlohmann::json::array();
    for (const char* word : words) {
      const std::string text = word == nullptr ? "" : word;
      take(text.size(), what);  // many strings may be one place of the file
      json["words"].push_back(text);
    }
    nc_free_string(count, words.data());
  }

  int file_;
  std::size_t room_;
  std::size_t size_;
  std::vector<Dimension> dimensions_;
};

}  // namespace

void read_netcdf_content(std::span<const std::byte> bytes, const std::function<void(const nlohmann::json&)>& emit) {
  // From memory: a name could mean a server or another format to the library, and a file could change meanwhile.
  // The library does not write to it, as NC_NOWRITE says.
  int id = 0;
  check(nc_open_mem("result", NC_NOWRITE, bytes.size(), const_cast<std::byte*>(bytes.data()), &id),
        "expected a NetCDF-4 file of Periscope");
  const Handle handle(id);
  Content(id, bytes.size()).read(emit);
}

}  // namespace periscope::app
