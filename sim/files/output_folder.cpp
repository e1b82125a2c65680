#include "sim/files/output_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "sim/files/destination.h"

namespace periscope {
namespace {

bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

int open_folder(const std::string& folder) {
  create_folders(folder, folder);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw cannot_write(folder, errno);
  return descriptor;
}

}  // namespace

OutputFolder::OutputFolder(std::string folder, const std::vector<std::string>& names, bool overwrite)
    : folder_(std::move(folder)), descriptor_(open_folder(folder_)) {
  try {
    lock();
    for (const std::string& name : names) {
      const std::string path = folder_ + "/" + name;
      if (!overwrite && is_there(path)) {
        throw ConfigError(fmt::format("{}: is there already; expected another folder, or --force to overwrite", path));
      }
    }
    for (const std::string& name : names) files_.push_back(std::make_unique<OutputFile>(folder_ + "/" + name));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

OutputFolder::~OutputFolder() { ::close(descriptor_); }

void OutputFolder::lock() {
  // Any other error: a file system without locks, where temporary names alone keep the writers apart.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  throw ConfigError(fmt::format("{}: another process is writing into this folder; expected one at a time", folder_));
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
