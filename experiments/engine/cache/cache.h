#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/engine/settings/resolved.h"

namespace periscope::cache {

/// Version of the numbers that tasks give. Raise it with every change that alters a number: values that were cached
/// before are then computed again.
inline constexpr int numeric_version = 2;

/// Returns a hash of all but the settings that the bits of a result depend on: numeric_version, the compiler, its flags
/// and build type, and the instruction set of the CPU.
const std::string& numerics();

/// Name of a task: `word` and a hash of all that its value depends on besides the run's settings.
std::string task_name(std::string_view word, const std::string& depends_on);

/// Values of the finished tasks of a run, each in a file FOLDER/cache/NAME-<hash>/TASK, which is written whole. The
/// hash covers the settings of the run, apart from its seeds, and `numerics`. Two processes may use it at the same
/// time.
class Cache {
 public:
  Cache(const std::string& folder, const std::string& name, const config::Resolved& resolved);

  /// Returns the value of a task; nothing if it was not finished. Throws InputError if its file is damaged.
  [[nodiscard]] std::optional<std::string> get(const std::string& task) const;
  /// Throws as write_file does.
  void put(const std::string& task, std::string_view value) const;
  /// The first and the last seed of every file "TASK.FIRST-LAST".
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> seeds_of(const std::string& task) const;
  /// Removes all tasks but `kept`, and the folders if nothing else is there.
  void remove_all_but(const std::string& kept) const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace periscope::cache
