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
constexpr std::array<std::string_view, 4> unsupported_weights{".bin", ".pt", ".pth", ".gguf"};

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

/// Returns snapshots/HASH, the folder with a model's files, if `folder` is an entry of Hugging Face's download cache,
/// else an empty path. Reads HASH from refs/main, or uses the first snapshot.
fs::path snapshot_in(const fs::path& folder) {
  const fs::path snapshots = folder / "snapshots";
  std::string hash;
  std::ifstream(folder / "refs" / "main") >> hash;
  // Accept only a hash, because other content could be a path to another folder.
  const bool is_name = !hash.empty() && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_name && is_folder(snapshots / hash)) return snapshots / hash;
  for (const fs::path& snapshot : entries_of(snapshots)) {
    if (is_folder(snapshot)) return snapshot;
  }
  return {};
}

}  // namespace

std::string weights_in(const std::string& folder) {
  constexpr std::size_t max_names = 3;
  std::vector<std::string> found;
  bool unsupported = false;
  for (const fs::path& path : entries_of(folder)) {
    const bool other = has_extension(path, unsupported_weights);
    unsupported = unsupported || other;
    if (other || path.extension() == ".safetensors") found.push_back(in_quotes(path.filename().string()));
  }
  if (found.empty()) return "";
  constexpr std::string_view adapter = "\"adapter_model.safetensors\"";
  if (std::ranges::find(found, adapter) != found.end()) {
    return fmt::format("; found an adapter, {}: {}", adapter, merge_advice);
  }
  const std::string more = found.size() > max_names ? ", …" : "";
  found.resize(std::min(found.size(), max_names));
  constexpr std::string_view advice = ": only safetensors files are supported; write them with save_pretrained()";
  return fmt::format("; found {}{}{}", fmt::join(found, ", "), more, unsupported ? advice : "");
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
    const bool other = has_extension(path, unsupported_weights);
    throw InputError(fmt::format("{}: this is a file; {}{}", folder, expected_folder,
                                 belongs ? ", here " + parent
                                 : other ? "; write them with save_pretrained()"
                                         : ""));
  }
  if (entry_exists(file)) return file;
  if (const fs::path snapshot = snapshot_in(folder); !snapshot.empty()) {
    throw InputError(fmt::format("{}: this is an entry of Hugging Face's download cache; use its folder {}", folder,
                                 snapshot.string()));
  }
  throw InputError(fmt::format("{}: no config.json{}; {}", folder, weights_in(folder), expected_folder));
}

}  // namespace periscope
