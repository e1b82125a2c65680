#include "experiments/engine/cache/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/files/mapped_file.h"
#include "sim/files/output_file.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"

namespace periscope::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t name_digits = 12;
constexpr std::size_t checksum_digits = 64;

/// Includes the task's name, so that a renamed file is rejected.
std::string checksum(const std::string& task, std::string_view value) {
  return config::sha256_hex(std::string(task).append("\n").append(value));
}

std::string short_hash(const std::string& text) { return config::sha256_hex(text).substr(0, name_digits); }

/// Returns the settings that a cached value depends on. Includes the names of enumerators, which are stored as numbers.
std::string key_of(const config::Resolved& resolved) {
  nlohmann::ordered_json settings = resolved.hashed;
  if (settings.contains("run")) {
    for (const char* seeds : {"seed", "seeds"}) settings["run"].erase(seeds);
  }
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const std::string_view statistic : statistic_names) names.push_back(statistic);
  for (const std::string_view signal : signal_names) names.push_back(signal);
  for (const std::string_view weight : weight_names) names.push_back(weight);
  return config::json_text(nlohmann::ordered_json{numerics(), settings, names});
}

}  // namespace

const std::string& numerics() {
  static const std::string hash =
      config::sha256_hex(fmt::format("{} {} {}", numeric_version, build_info::compilation, instructions_of("cpu")));
  return hash;
}

std::string task_name(std::string_view word, const std::string& depends_on) {
  return fmt::format("{}-{}", word, short_hash(depends_on));
}

Cache::Cache(const std::string& folder, const std::string& name, const config::Resolved& resolved)
    : folder_(fmt::format("{}/cache/{}-{}", folder, name, short_hash(key_of(resolved)))) {}

std::optional<std::string> Cache::get(const std::string& task) const {
  const std::string path = folder_ + "/" + task;
  std::error_code unreadable;
  if (!fs::exists(path, unreadable)) return std::nullopt;
  const MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (bytes.size() < checksum_digits ||
      bytes.substr(0, checksum_digits) != checksum(task, bytes.substr(checksum_digits))) {
    throw InputError(fmt::format("{}: checksum mismatch", path));
  }
  return std::string(bytes.substr(checksum_digits));
}

void Cache::put(const std::string& task, std::string_view value) const {
  write_file(folder_ + "/" + task, checksum(task, value).append(value));
}

std::map<std::uint64_t, std::uint64_t> Cache::seeds_of(const std::string& task) const {
  std::map<std::uint64_t, std::uint64_t> ranges;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(task + ".")) continue;
    std::istringstream range(name.substr(task.size() + 1));
    std::uint64_t first = 0, last = 0;
    char dash = 0;
    if (!(range >> first >> dash >> last) || dash != '-' || !range.eof()) continue;
    if (last >= first) ranges[first] = std::max(last, ranges[first]);
  }
  return ranges;
}

void Cache::remove_all_but(const std::string& task) const {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder_, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    if (entry->path().filename() == task) continue;
    std::error_code absent;  // ignored: another process may have removed the file
    if (entry->path().extension() == ".tmp") {
      remove_if_abandoned(entry->path());
    } else {
      fs::remove(entry->path(), absent);
    }
  }
  fs::remove(folder_, ignored);
  fs::remove(fs::path(folder_).parent_path(), ignored);
}

}  // namespace periscope::cache
