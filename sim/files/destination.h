#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace periscope {

/// "a FIFO", for messages.
[[nodiscard]] std::string_view kind_of_file(mode_t mode);

/// True if something has that name, even a broken link.
[[nodiscard]] bool entry_exists(const std::string& path);

/// "cannot write PATH: " and the system's message for `error`, a value of errno. To be thrown.
[[nodiscard]] Error cannot_write(const std::string& path, int error);

/// Where output to a path goes, symbolic links followed.
struct Destination {
  std::string path;
  bool is_stream = false;         ///< a FIFO, a character device or a socket: written into, never replaced
  std::optional<int> descriptor;  ///< the path means this process's open descriptor, as /dev/stdout does
};

/// Throws ConfigError for an empty path, a folder and a block device, Error (run-time failure) for a path that the
/// system does not follow.
[[nodiscard]] Destination destination_of(const std::string& path);

/// Returns the path that a result file replaces. Throws as destination_of does, and ConfigError for a stream or a
/// descriptor.
[[nodiscard]] std::string replaceable_file(const std::string& path);

/// True if the path still leads to the open regular file: another process may have removed or replaced it.
[[nodiscard]] bool refers_to(const std::string& path, int descriptor);

/// Creates the folder and its parents, and syncs their names. Throws ConfigError if something else has the name, also a
/// dangling symbolic link; Error (run-time failure) naming `path`, the file to be written, if the system refuses.
void create_folders(const std::string& folder, const std::string& path);

/// Syncs the names in a folder. Throws Error (run-time failure).
void sync_folder(const std::string& folder);

/// "." for a mere name.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace periscope
