#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/engine/settings/resolved.h"

namespace periscope::cache {

/// Version of the numeric results. Increment it with every change that alters a number, to invalidate cached values.
inline constexpr int numeric_version = 6;

/// Returns a hash of all influences on the bits of a result except settings: numeric_version, compiler, flags, build
/// type and CPU instruction set.
const std::string& numerics();

/// Returns the name of a task: `word` and a hash of `depends_on`, the inputs that the run's settings do not include.
std::string task_name(std::string_view word, const std::string& depends_on);

/// Cached values of a run's tasks, each in a file FOLDER/cache/NAME-<hash>/TASK, which is written atomically. The hash
/// covers the run's settings except seeds, and `numerics`. Several processes may use a cache concurrently.
class Cache {
 public:
  Cache(const std::string& folder, const std::string& name, const config::Resolved& resolved);

  /// Returns the value of a task; nullopt if it is not cached. Throws InputError if its file is damaged.
  [[nodiscard]] std::optional<std::string> get(const std::string& task) const;
  /// Stores the value of a task. Throws as write_file does.
  void put(const std::string& task, std::string_view value) const;
  /// Returns the first and last seed of every file "TASK.FIRST-LAST".
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> seeds_of(const std::string& task) const;
  /// Removes all tasks except `task`, and the folders if they are then empty.
  void remove_all_but(const std::string& task) const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace periscope::cache
