#include "sim/files/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "sim/files/destination.h"

namespace periscope {
namespace {

int open_folder(const std::string& folder) {
  create_folders(folder, folder);
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

FolderLock::FolderLock(std::string folder)
    : folder_(std::move(folder)), made_(!has_entry(folder_)), descriptor_(open_folder(folder_)) {
  if (descriptor_ < 0) {
    const int error = errno;
    release();
    throw cannot_write(folder_, error);
  }
  // Any other error: a file system without locks, where only temporary names separate the writers.
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
