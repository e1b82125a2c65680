#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/checkpoint/file_error.h"
#include "sim/checkpoint/safetensors_view.h"
#include "sim/checkpoint/strict_json.h"

namespace periscope {
namespace {

using Json = nlohmann::json;
using Bytes = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");
static_assert(sizeof(std::size_t) == 8);

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t max_header_bytes = 100'000'000;  // limit of the official reader
constexpr const char* metadata_key = "__metadata__";

/// Describes a JSON value: numbers and strings by their text, arrays and objects by type and size.
std::string described(const Json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_object() || value.is_array()) return fmt::format("an {} of length {}", value.type_name(), value.size());
  return value.dump();
}

/// Returns the header after checking its length.
Bytes header_of(Bytes file, const std::string& path) {
  if (file.size() < length_bytes) {
    throw malformed(path,
                    fmt::format("{} bytes, expected the header's length in the first {}", file.size(), length_bytes));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), length_bytes);
  if (length > max_header_bytes) {
    reject_other_formats(file, path);
    throw malformed(path, fmt::format("its first {} bytes say that the header has {} bytes, expected at most {}",
                                      length_bytes, length, max_header_bytes));
  }
  if (const std::uint64_t rest = file.size() - length_bytes; length > rest) {
    reject_other_formats(file, path);
    throw malformed(path, fmt::format("its first {} bytes say that the header has {} bytes, but only {} follow",
                                      length_bytes, length, rest));
  }
  return file.subspan(length_bytes, length);
}

/// Byte range of a tensor according to the header, relative to the start of the data.
struct ByteRange {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Reads one entry of the header.
class EntryReader {
 public:
  EntryReader(const std::string& path, const std::string& name, const Json& entry)
      : path_(&path), name_(&name), entry_(&entry) {
    if (!entry.is_object()) throw wrong(fmt::format("is {}, expected an object", described(entry)));
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!entry.contains(key)) throw wrong(fmt::format("has no {}", key));
    }
    for (const auto& item : entry.items()) {
      if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data_offsets") {
        throw wrong(
            fmt::format("has the field {}, expected only dtype, shape and data_offsets", in_quotes(item.key())));
      }
    }
  }

  [[nodiscard]] const std::string& name() const { return *name_; }

  [[nodiscard]] SafetensorsType type() const {
    const Json& dtype = (*entry_)["dtype"];
    const auto found = dtype.is_string() ? safetensors_type(dtype.get_ref<const std::string&>()) : std::nullopt;
    if (!found) {
      throw wrong(fmt::format("has the dtype {}, expected one of {}", described(dtype), safetensors_type_names()));
    }
    return *found;
  }

  [[nodiscard]] std::vector<std::int64_t> shape() const {
    const Json& lengths = (*entry_)["shape"];
    if (!lengths.is_array()) throw wrong(fmt::format("has the shape {}, expected an array", described(lengths)));
    std::vector<std::int64_t> shape;
    shape.reserve(lengths.size());
    std::uint64_t product = 1;
    bool too_long = false;
    for (const Json& length : lengths) {
      const std::uint64_t number = whole(length, "a length in its shape");
      // Multiplies from left to right like the official reader: [2^63, 4, 0] overflows although it is empty.
      if (__builtin_mul_overflow(product, number, &product)) throw wrong("has a shape whose product exceeds 64 bits");
      too_long = too_long || number > std::numeric_limits<std::int64_t>::max();
      shape.push_back(static_cast<std::int64_t>(number));
    }
    if (too_long) {
      throw unsupported(*path_, fmt::format("tensor {} has a length of 2^63 or more in its shape", in_quotes(*name_)));
    }
    return shape;
  }

  [[nodiscard]] ByteRange offsets() const {
    const Json& pair = (*entry_)["data_offsets"];
    if (!pair.is_array() || pair.size() != 2) {
      throw wrong(fmt::format("has {} as data_offsets, expected an array of length 2", described(pair)));
    }
    return {whole(pair[0], "a data offset"), whole(pair[1], "a data offset")};
  }

  [[nodiscard]] InputError wrong(const std::string& problem) const {
    return malformed(*path_, fmt::format("tensor {} {}", in_quotes(*name_), problem));
  }

 private:
  [[nodiscard]] std::uint64_t whole(const Json& value, const char* field) const {
    // The parser does not treat 1.0, 1e3, -0 or numbers above 64 bits as unsigned.
    if (!value.is_number_unsigned()) {
      throw wrong(
          fmt::format("has {} that is {}, expected a whole number from 0 to 2^64 - 1", field, described(value)));
    }
    return value.get<std::uint64_t>();
  }

  const std::string* path_;
  const std::string* name_;
  const Json* entry_;
};

std::map<std::string, std::string> metadata_of(const Json& value, const std::string& path) {
  if (!value.is_object()) {
    throw malformed(path, fmt::format("{} is {}, expected an object", metadata_key, described(value)));
  }
  std::map<std::string, std::string> metadata;
  for (const auto& item : value.items()) {
    if (!item.value().is_string()) {
      throw malformed(path, fmt::format("{} has {} for {}, expected a string", metadata_key, described(item.value()),
                                        in_quotes(item.key())));
    }
    metadata[item.key()] = item.value().get<std::string>();
  }
  return metadata;
}

/// Returns the number of bytes for this shape and type.
std::uint64_t bytes_needed(const SafetensorsView& view, const EntryReader& reader) {
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(count_of(view), static_cast<std::uint64_t>(bits_of(view.type)), &bits)) {
    throw reader.wrong("has a shape whose bits exceed 64 bits");
  }
  if (bits % 8 != 0) throw reader.wrong(fmt::format("has {} bits, expected whole bytes", bits));
  return bits / 8;
}

}  // namespace

std::uint64_t count_of(const SafetensorsView& view) {
  std::uint64_t count = 1;
  for (const std::int64_t length : view.shape) count *= static_cast<std::uint64_t>(length);
  return count;
}

SafetensorsContents parse_safetensors(Bytes file, const std::string& path) {
  const Bytes header = header_of(file, path);
  const Bytes data = file.subspan(length_bytes + header.size());
  const Json json = parse_strict_json(header, path, "the header");
  if (!json.is_object()) throw malformed(path, fmt::format("the header is {}, expected an object", described(json)));

  SafetensorsContents contents;
  std::vector<std::pair<ByteRange, EntryReader>> entries;
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (item.key() == metadata_key) {
      contents.metadata = metadata_of(*item, path);
      continue;
    }
    const EntryReader reader(path, item.key(), *item);
    contents.tensors[item.key()] = {.type = reader.type(), .shape = reader.shape(), .bytes = {}};
    entries.emplace_back(reader.offsets(), reader);
  }

  // Tensors must cover the data without gaps.
  std::ranges::sort(entries, {}, [](const auto& entry) { return std::pair(entry.first.begin, entry.first.end); });
  std::uint64_t end = 0;
  for (const auto& [range, reader] : entries) {
    if (range.begin != end) {
      throw reader.wrong(fmt::format("begins at byte {} of the data, expected {}: there is {}", range.begin, end,
                                     range.begin > end ? "a gap" : "an overlap"));
    }
    if (range.end < range.begin) {
      throw reader.wrong(fmt::format("ends at byte {} of the data, before it begins at {}", range.end, range.begin));
    }
    SafetensorsView& view = contents.tensors[reader.name()];
    if (const std::uint64_t needed = bytes_needed(view, reader); range.end - range.begin != needed) {
      throw reader.wrong(fmt::format("has {} bytes, but its shape and {} need {}", range.end - range.begin,
                                     name_of(view.type), needed));
    }
    if (range.end > data.size()) {
      throw reader.wrong(fmt::format("ends at byte {} of the data, but the file has only {}: it is truncated",
                                     range.end, data.size()));
    }
    view.bytes = data.subspan(range.begin, range.end - range.begin);
    end = range.end;
  }
  if (end != data.size()) {
    throw malformed(path, fmt::format("{} bytes of data, but the tensors end at {}", data.size(), end));
  }
  return contents;
}

}  // namespace periscope
