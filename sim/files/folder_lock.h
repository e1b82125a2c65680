#pragma once

#include <string>

namespace periscope {

/// A folder that this process alone writes into while this lives. At its end a folder that it made and that is still
/// empty is gone again.
class FolderLock {
 public:
  /// Creates the folder, and those above it, if needed. Throws ConfigError if another process has the lock, otherwise
  /// as create_folders.
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
