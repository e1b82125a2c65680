#include "sim/files/destination.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sim/base/parse_integer.h"
#include "sim/base/printable.h"

namespace periscope {
namespace {

namespace fs = std::filesystem;

/// The maximum number of symbolic links that Linux follows.
constexpr int max_links = 40;

/// Returns N if the path is descriptor N of this process in /proc, the target of links such as /dev/stdout.
std::optional<int> descriptor_named(const fs::path& path) {
  std::error_code failed;
  const std::string folder = fs::canonical(folder_of(path.string()), failed).string();
  const bool is_own = folder.starts_with(fmt::format("/proc/{}/", ::getpid())) && folder.ends_with("/fd");
  if (failed || !is_own) return std::nullopt;
  const auto number = parse_integer(path.filename().string());
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

Destination descriptor_destination(const std::string& path, int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) throw cannot_write(path, EBADF);
  return {.path = path, .is_stream = true, .descriptor = descriptor};
}

/// Returns the target of a symbolic link; any other path is returned unchanged.
fs::path link_target(const fs::path& path) {
  std::error_code failed;
  const fs::path target = fs::read_symlink(path, failed);
  if (failed) return path;
  return target.is_absolute() ? target : fs::path(folder_of(path.string())) / target;
}

}  // namespace

std::string_view kind_of_file(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISBLK(mode)) return "a block device";
  return S_ISCHR(mode) ? "a character device" : "a socket";
}

bool entry_exists(const std::string& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

Error cannot_write(const std::string& path, int error) {
  return {ExitCode::runtime_failure, fmt::format("cannot write {}: {}", path, std::strerror(error))};
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Destination destination_of(const std::string& path) {
  if (path.empty()) throw ConfigError("cannot write to \"\": expected a file name");
  if (path.find('\0') != std::string::npos) {
    throw ConfigError(fmt::format("cannot write to {}: expected a file name without U+0000", printable(path)));
  }
  fs::path at = path;
  // If a path has more than max_links links, stat fails with ELOOP.
  for (int links = 0; links < max_links; ++links) {
    if (const auto descriptor = descriptor_named(at)) return descriptor_destination(path, *descriptor);
    const fs::path next = link_target(at);
    if (next == at) break;
    at = next;
  }
  struct stat status {};
  if (::stat(at.c_str(), &status) != 0) {
    // Missing folders are created later; create_folders reports a parent that is not a folder (ENOTDIR).
    if (errno != ENOENT && errno != ENOTDIR) throw cannot_write(path, errno);
    if (!at.has_filename()) throw ConfigError(fmt::format("{}: expected a file name, found a folder name", path));
    return {.path = at.string(), .is_stream = false, .descriptor = {}};
  }
  if (S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)) {
    throw ConfigError(
        fmt::format("{}: expected a regular file or a new name, found {}", path, kind_of_file(status.st_mode)));
  }
  return {.path = at.string(), .is_stream = !S_ISREG(status.st_mode), .descriptor = {}};
}

std::string replaceable_file(const std::string& path) {
  const Destination to = destination_of(path);
  if (!to.is_stream) return to.path;
  struct stat status {};
  const bool is_known = !to.descriptor && ::stat(to.path.c_str(), &status) == 0;
  throw ConfigError(fmt::format("{}: expected a regular file or a new name, found {}", path,
                                is_known ? kind_of_file(status.st_mode) : "an open descriptor"));
}

bool refers_to(const std::string& path, int descriptor) {
  struct stat open {};
  struct stat named {};
  if (::fstat(descriptor, &open) != 0 || ::stat(path.c_str(), &named) != 0) return false;
  return S_ISREG(open.st_mode) && open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return;  // another process removed it
  if (descriptor < 0) throw cannot_write(folder, errno);
  // EINVAL: the file system does not support syncing folders.
  const int error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  ::close(descriptor);
  if (error != 0) throw cannot_write(folder, error);
}

void create_folders(const std::string& folder, const std::string& path) {
  for (int attempts = 0;; ++attempts) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) return;
      throw ConfigError(
          fmt::format("cannot write {}: {}: expected a folder, found {}", path, folder, kind_of_file(status.st_mode)));
    }
    if (errno != ENOENT && errno != ENOTDIR) throw cannot_write(path, errno);
    const std::string above = folder_of(folder);
    create_folders(above, path);
    if (::mkdir(folder.c_str(), 0777) == 0) return sync_folder(above);
    const int error = errno;
    std::error_code unknown;
    if (error == EEXIST && fs::is_symlink(folder, unknown) && !fs::exists(folder, unknown)) {
      throw ConfigError(
          fmt::format("cannot write {}: {}: expected a folder, found a broken symbolic link", path, folder));
    }
    // Another process may have created the folder, or removed the one above.
    if ((error != EEXIST && error != ENOENT) || attempts == max_attempts) throw cannot_write(path, error);
  }
}

}  // namespace periscope
