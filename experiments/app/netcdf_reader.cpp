#include "experiments/app/netcdf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>

#include "experiments/app/child_process.h"
#include "experiments/app/netcdf_content.h"
#include "sim/base/error.h"
#include "sim/files/mapped_file.h"

namespace periscope::app {
namespace {

/// CBOR, because names and words of a foreign file are any bytes, which the text form of JSON refuses.
std::string packed(const nlohmann::json& json) {
  std::string bytes;
  nlohmann::json::to_cbor(json, bytes);
  return bytes;
}

using dataset::Column;
using dataset::Dataset;

std::size_t length_of(const Dataset& data, const std::string& name) {
  const auto it = std::ranges::find(data.dimensions, name, &dataset::Dimension::name);
  if (it == data.dimensions.end()) throw std::length_error("a dimension that is none");
  return it->length;
}

void read_head(const nlohmann::json& head, Dataset& data) {
  const auto free = head.at("unlimited").get<std::vector<std::string>>();
  for (const nlohmann::json& d : head.at("dimensions")) {
    const bool is_free = std::ranges::find(free, d.at(0).get<std::string>()) != free.end();
    data.dimensions.push_back({.name = d.at(0), .length = d.at(1), .free = is_free});
  }
  for (const nlohmann::json& a : head.at("attributes")) {
    const auto name = a.at(0).get<std::string>();
    if (a.at(1).is_string()) {
      dataset::set(data.facts, name, a.at(1).get<std::string>());
    } else if (a.at(1).is_number_integer()) {
      dataset::set(data.facts, name, a.at(1).get<std::int64_t>());
    } else {
      dataset::set(data.facts, name, a.at(1).get<double>());
    }
  }
}

template <class T>
std::vector<T> numbers_in(const nlohmann::json& json) {
  const nlohmann::json::binary_t& bytes = json.get_binary();
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return numbers;
}

Column column_of(const nlohmann::json& json, const Dataset& data) {
  Column v{.name = json.at("name"),
           .dimensions = json.at("dimensions"),
           .values = {},
           .units = json.at("units"),
           .meaning = json.at("long_name")};
  std::size_t count = 1;
  for (const std::string& name : v.dimensions) count *= length_of(data, name);
  if (json.contains("words")) {
    v.values = json["words"].get<std::vector<std::string>>();
  } else if (json.contains("integers")) {
    v.values = numbers_in<std::int64_t>(json["integers"]);
  } else if (json.contains("flags")) {
    v.values = numbers_in<std::uint8_t>(json["flags"]);
  } else {
    v.values = numbers_in<double>(json.at("numbers"));
  }
  if (dataset::size_of(v.values) != count) throw std::length_error("another number of values than its dimensions say");
  return v;
}

/// Throws nlohmann::json::exception or std::length_error for an answer that is none: the library in the child may have
/// written over its own memory without crashing.
Dataset dataset_of(std::span<const std::string> messages) {
  Dataset data;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const nlohmann::json json = nlohmann::json::from_cbor(messages[i]);
    if (i == 0) {
      read_head(json, data);
    } else {
      data.columns.push_back(column_of(json, data));
    }
  }
  return data;
}

}  // namespace

dataset::Dataset read_netcdf(const std::string& path) {
  const MappedFile file(path);
  constexpr std::string_view hdf5 = "\x89HDF\r\n\x1a\n";
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (!text.starts_with(hdf5)) {
    throw InputError(fmt::format("{}: expected a NetCDF-4 file of Periscope, found other first bytes", path));
  }
  constexpr std::size_t mebibyte = 1U << 20U;
  // Numbers are held as read, as sent, and as part of a message; a single-byte number becomes a double of eight.
  const ChildLimits limits{.memory = 256 * mebibyte + 32 * text.size(),
                           .cpu_seconds = static_cast<unsigned>(2 + text.size() / (8 * mebibyte)),
                           .answer_size = mebibyte + 16 * text.size()};
  const ChildAnswer answer = in_child(limits, [&](const SendMessage& send) {
    try {
      read_netcdf_content(file.bytes(), [&](const nlohmann::json& json) { send(packed(json)); });
      send(packed("complete"));
    } catch (const InputError& error) {
      send(packed({{"refused", error.what()}}));
    }
  });
  const auto not_read = [&](const std::string& why) {
    return InputError(fmt::format("{}: the NetCDF library could not read it: {}", path, why));
  };
  if (!answer.complete) throw not_read(answer.failure);
  try {
    const nlohmann::json last =
        answer.messages.empty() ? nlohmann::json() : nlohmann::json::from_cbor(answer.messages.back());
    if (last.is_object()) throw InputError(fmt::format("{}: {}", path, last.at("refused").get<std::string>()));
    if (last != "complete") throw not_read("it ended early");
    return dataset_of(std::span(answer.messages).first(answer.messages.size() - 1));
  } catch (const nlohmann::json::exception&) {
    throw not_read("its answer is none");
  } catch (const std::length_error&) {
    throw not_read("its answer contradicts itself");
  }
}

}  // namespace periscope::app
