#include "sim/files/output_folder.h"

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
    : folder_(std::move(folder)), created_(!entry_exists(folder_)), descriptor_(open_folder(folder_)) {
  if (descriptor_ < 0) {
    const int error = errno;
    release();
    throw cannot_write(folder_, error);
  }
  // Other errors mean a file system without locks, where writers are separated only by temporary names.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  created_ = false;
  release();
  throw ConfigError(fmt::format("{}: another process is writing to this folder; expected one writer", folder_));
}

FolderLock::~FolderLock() { release(); }

void FolderLock::release() {
  if (created_) ::rmdir(folder_.c_str());  // fails if the folder is not empty
  if (descriptor_ >= 0) ::close(descriptor_);
}

OutputFolder::OutputFolder(std::string folder, const std::vector<std::string>& names, bool overwrite)
    : lock_(std::move(folder)) {
  for (const std::string& name : names) {
    const std::string path = lock_.folder() + "/" + name;
    if (!overwrite && entry_exists(path)) {
      throw ConfigError(fmt::format("{}: already exists; choose another folder, or overwrite with --force", path));
    }
  }
  for (const std::string& name : names) files_.push_back(std::make_unique<OutputFile>(lock_.folder() + "/" + name));
}

void OutputFolder::commit() {
  for (const auto& file : files_) file->sync();
  const std::string& marker = files_.back()->target();
  if (files_.size() > 1 && ::unlink(marker.c_str()) == 0) sync_folder(folder_of(marker));
  for (std::size_t i = 0; i + 1 < files_.size(); ++i) {
    files_[i]->publish();
    sync_folder(folder_of(files_[i]->target()));
  }
  files_.back()->publish();
  sync_folder(folder_of(marker));
}

}  // namespace periscope
