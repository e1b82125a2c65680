#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace periscope {

/// Returns the type of a file in words, e.g. "a FIFO".
[[nodiscard]] std::string_view kind_of_file(mode_t mode);

/// Returns true if the path exists, even as a broken symbolic link.
[[nodiscard]] bool entry_exists(const std::string& path);

/// Returns an Error for the caller to throw: "cannot write PATH: " and the message of the errno value `error`.
[[nodiscard]] Error cannot_write(const std::string& path, int error);

/// The target of output to a path, after resolving symbolic links.
struct Destination {
  std::string path;
  bool is_stream = false;         ///< FIFO, character device, socket or descriptor: written to, never replaced
  std::optional<int> descriptor;  ///< the open descriptor of this process that the path denotes, e.g. /dev/stdout
};

/// Resolves an output path. Throws ConfigError for an empty path, a folder or a block device, and Error (run-time
/// failure) if the system cannot resolve the path.
[[nodiscard]] Destination destination_of(const std::string& path);

/// Returns the resolved path of a file to create or replace. Throws like destination_of; also ConfigError for a stream.
[[nodiscard]] std::string replaceable_file(const std::string& path);

/// Returns true if the path still refers to the open regular file, i.e. no other process removed or replaced it.
[[nodiscard]] bool refers_to(const std::string& path, int descriptor);

/// Maximum number of attempts to create a file or folder if another process removes the folder above it.
inline constexpr int max_attempts = 100;

/// Creates the folder and its parents, and syncs the new directory entries. Throws ConfigError if the name exists but
/// is not a folder, e.g. a broken symbolic link. Throws Error (run-time failure) that names `path`, the file to write,
/// if a system call fails.
void create_folders(const std::string& folder, const std::string& path);

/// Syncs a folder's directory entries to disk, unless it was removed. Throws Error (run-time failure).
void sync_folder(const std::string& folder);

/// Returns the parent folder of a path, "." for a bare file name.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace periscope
