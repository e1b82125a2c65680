#include "sim/files/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "sim/files/destination.h"

namespace periscope {
namespace {

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

int open_folder(const std::string& folder) {
  create_folders(folder, folder);
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

FolderLock::FolderLock(std::string folder)
    : folder_(std::move(folder)), made_(!is_there(folder_)), descriptor_(open_folder(folder_)) {
  if (descriptor_ < 0) {
    const int error = errno;
    release();
    throw cannot_write(folder_, error);
  }
  // Any other error: a file system without locks, where temporary names alone keep the writers apart.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  made_ = false;
  release();
  throw ConfigError(fmt::format("{}: another process is writing into this folder; expected one at a time", folder_));
}

FolderLock::~FolderLock() { release(); }

void FolderLock::release() {
  if (made_) ::rmdir(folder_.c_str());  // leaves a folder that is not empty
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace periscope
