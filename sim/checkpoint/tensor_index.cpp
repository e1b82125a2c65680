#include "sim/checkpoint/tensor_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/checkpoint/file_error.h"
#include "sim/checkpoint/strict_json.h"

namespace periscope {
namespace {

using Json = nlohmann::json;

bool is_not_plain(char c) { return c == '/' || c == '\\' || (c >= 0 && c < ' ') || c == '\x7f'; }

void check_file_name(std::string_view file, const std::string& tensor, const std::string& path) {
  if (file.empty() || file == "." || file == ".." || std::ranges::any_of(file, is_not_plain)) {
    throw malformed(path, fmt::format("weight_map has {} in the file {}, expected a plain name without a folder",
                                      in_quotes(tensor), in_quotes(file)));
  }
  if (!file.ends_with(".safetensors")) {
    throw unsupported(path, fmt::format("weight_map has {} in the file {}; only .safetensors files are read",
                                        in_quotes(tensor), in_quotes(file)));
  }
}

std::map<std::string, std::string> weight_map_of(const Json& index, const std::string& path) {
  const auto found = index.find("weight_map");
  if (found == index.end()) throw malformed(path, "no weight_map, which says which file holds which tensor");
  if (!found->is_object() || found->empty()) {
    throw malformed(path, fmt::format("weight_map is an {} of {}, expected an object with tensors", found->type_name(),
                                      found->size()));
  }
  std::map<std::string, std::string> map;
  for (const auto& item : found->items()) {
    if (!item.value().is_string()) {
      throw malformed(path, fmt::format("weight_map has a value of type {} for {}, expected a file name",
                                        item.value().type_name(), in_quotes(item.key())));
    }
    const auto& file = item.value().get_ref<const std::string&>();
    check_file_name(file, item.key(), path);
    map[item.key()] = file;
  }
  return map;
}

}  // namespace

TensorIndex parse_tensor_index(std::span<const std::byte> text, const std::string& path) {
  const Json json = parse_strict_json(text, path, "the index");
  if (!json.is_object())
    throw malformed(path, fmt::format("the index is of type {}, expected an object", json.type_name()));
  TensorIndex index;
  index.weight_map = weight_map_of(json, path);
  const auto metadata = json.find("metadata");
  if (metadata == json.end()) return index;
  if (!metadata->is_object()) {
    throw malformed(path, fmt::format("metadata is of type {}, expected an object", metadata->type_name()));
  }
  if (const auto size = metadata->find("total_size"); size != metadata->end()) {
    if (size->is_number_unsigned()) {
      index.total_size = size->get<std::uint64_t>();
    } else {
      index.warnings.push_back(fmt::format("{}: total_size is no whole number, so it was not checked", path));
    }
  }
  return index;
}

}  // namespace periscope
