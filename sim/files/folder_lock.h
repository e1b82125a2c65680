#pragma once

#include <string>

namespace periscope {

/// Locks a folder against other writing processes. The destructor removes a folder that the constructor made and that
/// is still empty.
class FolderLock {
 public:
  /// Creates the folder and its parents if needed. Throws ConfigError if another process has the lock, otherwise as
  /// create_folders.
  explicit FolderLock(std::string folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  void release();

  std::string folder_;
  bool made_;
  int descriptor_;
};

}  // namespace periscope
