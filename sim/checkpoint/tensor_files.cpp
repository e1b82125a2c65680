#include "sim/checkpoint/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "sim/base/mapped.h"
#include "sim/checkpoint/checkpoint_folder.h"
#include "sim/checkpoint/file_error.h"
#include "sim/checkpoint/strict_json.h"
#include "sim/files/destination.h"

namespace periscope {
namespace {

namespace fs = std::filesystem;

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

std::string inside(const std::string& folder, const std::string& file) { return (fs::path(folder) / file).string(); }

/// Rejects links out of the folder: a downloaded model must not give access to other files of this machine. In Hugging
/// Face's download cache, links from …/snapshots/REVISION to …/blobs/HASH are allowed.
void reject_escape(const std::string& folder, const std::string& path) {
  std::error_code error;
  const fs::path home = fs::canonical(folder, error);
  const fs::path target = fs::canonical(path, error);
  if (error) throw InputError(fmt::format("{}: cannot follow the link: {}", path, error.message()));
  const auto is_under = [&](const fs::path& base) {
    return std::mismatch(base.begin(), base.end(), target.begin(), target.end()).first == base.end();
  };
  if (is_under(home)) return;
  if (home.parent_path().filename() == "snapshots" && is_under(home.parent_path().parent_path() / "blobs")) return;
  throw malformed(path, fmt::format("link out of the folder, to {}", in_quotes(target.string())));
}

bool is_not_plain(char c) { return c == '/' || c == '\\' || (c >= 0 && c < ' ') || c == '\x7f'; }

void check_file_name(std::string_view file, const std::string& tensor, const std::string& path) {
  if (file.empty() || file == "." || file == ".." || std::ranges::any_of(file, is_not_plain)) {
    throw malformed(path, fmt::format("weight_map places {} in the file {}, expected a plain name without a folder",
                                      in_quotes(tensor), in_quotes(file)));
  }
  if (!file.ends_with(".safetensors")) {
    throw unsupported(path, fmt::format("weight_map places {} in the file {}; only .safetensors files are supported",
                                        in_quotes(tensor), in_quotes(file)));
  }
}

std::map<std::string, std::string> weight_map_of(const nlohmann::json& index, const std::string& path) {
  const auto found = index.find("weight_map");
  if (found == index.end()) throw malformed(path, "expected a weight_map from tensors to files, found none");
  if (!found->is_object() || found->empty()) {
    throw malformed(path, fmt::format("weight_map is an {} of length {}, expected an object with tensors",
                                      found->type_name(), found->size()));
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
  const nlohmann::json json = parse_strict_json(text, path, "the index");
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
      index.warnings.push_back(fmt::format("{}: total_size is not an integer and was not checked", path));
    }
  }
  return index;
}

TensorFiles::TensorFiles(const std::string& folder) : folder_(folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::is_directory(status)) {
    throw InputError(fmt::format("{}: {}, expected a folder with {} or {}", folder,
                                 fs::exists(status) ? "not a folder" : "no such folder", single_name, index_name));
  }
  const std::string single = inside(folder, single_name);
  const std::string index = inside(folder, index_name);
  if (!entry_exists(single)) {
    if (!entry_exists(index)) {
      throw InputError(
          fmt::format("{}: expected {} or {}, found neither{}", folder, single_name, index_name, weights_in(folder)));
    }
    open_shards(index);
    return;
  }
  if (entry_exists(index)) warnings_.push_back(fmt::format("{}: ignored, because {} exists", index, single_name));
  files_.emplace_back(single);
  for (const auto& [name, view] : files_.front().tensors()) file_indices_[name] = 0;
}

TensorFiles::TensorFiles(const MemoryModel& model) : folder_(model.name) {
  files_.emplace_back(model.name, model.tensors);
  for (const auto& [name, view] : model.tensors.tensors) file_indices_[name] = 0;
}

void TensorFiles::open_shards(const std::string& index_path) {
  const MappedFile index_file(index_path);
  TensorIndex index = parse_tensor_index(index_file.bytes(), index_path);
  warnings_ = std::move(index.warnings);

  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index.weight_map) shards.insert(shard);
  std::vector<std::string> missing;
  for (const std::string& shard : shards) {
    if (!entry_exists(inside(folder_, shard))) missing.push_back(in_quotes(shard));
  }
  if (!missing.empty()) {
    throw InputError(fmt::format("{}: {} of the {} files listed in {} are missing, the first is {}", folder_,
                                 missing.size(), shards.size(), index_name, missing.front()));
  }

  std::uint64_t bytes = 0;
  for (const std::string& shard : shards) {
    const std::string path = inside(folder_, shard);
    reject_escape(folder_, path);
    files_.emplace_back(path);
    for (const auto& [name, view] : files_.back().tensors()) {
      bytes += view.bytes.size();
      if (const auto [other, is_new] = file_indices_.insert({name, files_.size() - 1}); !is_new) {
        throw malformed(path, fmt::format("tensor {} is also in {}", in_quotes(name), files_[other->second].path()));
      }
      if (!index.weight_map.contains(name)) {
        warnings_.push_back(fmt::format("{}: tensor {} is not in the index", path, in_quotes(name)));
      }
    }
  }
  for (const auto& [name, shard] : index.weight_map) {
    const auto found = file_indices_.find(name);
    if (found == file_indices_.end() || files_[found->second].path() != inside(folder_, shard)) {
      throw malformed(index_path,
                      fmt::format("weight_map places tensor {} in {}, which does not contain it{}", in_quotes(name),
                                  in_quotes(shard), found == file_indices_.end() ? "" : "; another file does"));
    }
  }
  if (index.total_size && *index.total_size != bytes) {
    warnings_.push_back(
        fmt::format("{}: total_size is {}, but the tensors have {} bytes", index_path, *index.total_size, bytes));
  }
}

std::vector<std::string> TensorFiles::names() const {
  return mapped(file_indices_, [](const auto& item) { return item.first; });
}

std::map<std::string, std::string> TensorFiles::aliases() const {
  std::map<std::string, std::string> all;
  for (const SafetensorsFile& file : files_) {
    for (const auto& [name, stored] : file.metadata()) {
      if (!contains(name) && contains(stored)) all.emplace(name, stored);
    }
  }
  return all;
}

StoredCounts TensorFiles::counts() const {
  StoredCounts counts{.tensors = file_indices_.size(), .numbers = 0};
  for (const SafetensorsFile& file : files_) {
    for (const auto& [name, view] : file.tensors()) counts.numbers += count_of(view);
  }
  return counts;
}

const SafetensorsFile& TensorFiles::file_with(const std::string& name) const {
  const auto found = file_indices_.find(name);
  if (found == file_indices_.end()) throw no_such_tensor(folder_, name, names());
  return files_[found->second];
}

const SafetensorsView& TensorFiles::find(const std::string& name) const { return file_with(name).find(name); }

const std::string& TensorFiles::file_of(const std::string& name) const { return file_with(name).path(); }

std::vector<double> TensorFiles::values(const std::string& name) const { return file_with(name).values(name); }

}  // namespace periscope
