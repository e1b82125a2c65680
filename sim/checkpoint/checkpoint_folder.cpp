#include "sim/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "sim/checkpoint/file_error.h"
#include "sim/files/destination.h"

namespace periscope {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view expected_folder = "expected a folder with config.json and safetensors files";
constexpr std::array<std::string_view, 4> unread_weights{".bin", ".pt", ".pth", ".gguf"};

bool has_extension(const fs::path& name, const auto& extensions) {
  return std::ranges::find(extensions, name.extension().string()) != extensions.end();
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    entries.push_back(entry->path());
  }
  std::ranges::sort(entries);
  return entries;
}

/// The folder of a model's files in Hugging Face's download cache, of whose place for the model `folder` is the path:
/// snapshots/HASH, with the hash that refs/main holds or else the first. Empty if it is no such place.
fs::path snapshot_in(const fs::path& folder) {
  const fs::path snapshots = folder / "snapshots";
  std::string hash;
  std::ifstream(folder / "refs" / "main") >> hash;
  // The file may hold anything, which could lead elsewhere.
  const bool is_name = !hash.empty() && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_name && is_folder(snapshots / hash)) return snapshots / hash;
  for (const fs::path& snapshot : entries_of(snapshots)) {
    if (is_folder(snapshot)) return snapshot;
  }
  return {};
}

}  // namespace

std::string weights_in(const std::string& folder) {
  constexpr std::size_t most = 3;
  std::vector<std::string> found;
  bool unread = false;
  for (const fs::path& path : entries_of(folder)) {
    const bool other = has_extension(path, unread_weights);
    unread = unread || other;
    if (other || path.extension() == ".safetensors") found.push_back(in_quotes(path.filename().string()));
  }
  if (found.empty()) return "";
  constexpr std::string_view adapter = "\"adapter_model.safetensors\"";
  if (std::ranges::find(found, adapter) != found.end()) {
    return fmt::format("; it has an adapter, {}: {}", adapter, merge_advice);
  }
  const std::string more = found.size() > most ? ", …" : "";
  found.resize(std::min(found.size(), most));
  return fmt::format("; it has {}{}{}", fmt::join(found, ", "), more,
                     unread ? ": only safetensors files are read, as save_pretrained of transformers writes them" : "");
}

std::string config_file_of(const std::string& folder) {
  const std::string file = folder + "/config.json";
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::none) throw InputError(fmt::format("{}: {}", folder, error.message()));
  if (!fs::exists(status)) throw InputError(fmt::format("{}: no such folder; {}", folder, expected_folder));
  if (!fs::is_directory(status)) {
    const fs::path path(folder);
    const std::string parent = path.has_parent_path() ? path.parent_path().string() : ".";
    const bool belongs = path.filename() == "config.json" || path.extension() == ".safetensors";
    const bool other = has_extension(path, unread_weights);
    throw InputError(fmt::format("{}: this is a file; {}{}", folder, expected_folder,
                                 belongs ? ": " + parent
                                 : other ? ", which alone are read, as save_pretrained of transformers writes them"
                                         : ""));
  }
  if (entry_exists(file)) return file;
  if (const fs::path snapshot = snapshot_in(folder); !snapshot.empty()) {
    throw InputError(
        fmt::format("{}: a model's place in Hugging Face's cache; its files are in {}", folder, snapshot.string()));
  }
  throw InputError(fmt::format("{}: there is no config.json{}; {}", folder, weights_in(folder), expected_folder));
}

}  // namespace periscope
