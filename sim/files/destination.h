#pragma once

#include <optional>
#include <string>

#include "sim/base/error.h"

namespace periscope {

/// "cannot write PATH: " and what the system says of `error`, a value of errno. To be thrown.
[[nodiscard]] Error cannot_write(const std::string& path, int error);

/// The place where something written to a path arrives, symbolic links followed.
struct Destination {
  std::string path;               ///< of a regular file, of nothing yet, or of what `is_stream` says
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
[[nodiscard]] bool leads_to(const std::string& path, int descriptor);

/// Creates the folder and those above it, and makes their names last. Throws ConfigError if something else has the
/// name, also a dangling symbolic link; Error (run-time failure) naming `path`, for which it is wanted, if the system
/// refuses.
void create_folders(const std::string& folder, const std::string& path);

/// Makes the names in a folder last. Throws Error (run-time failure).
void sync_folder(const std::string& folder);

/// The folder that a path is in: "." for a mere name.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace periscope
