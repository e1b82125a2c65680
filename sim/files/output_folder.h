#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/files/output_file.h"

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

/// Files of one folder that belong together, as a model's config.json and tensors. They appear when all are complete.
/// The last one marks the set as complete: an older marker is removed first and the new one appears last, so that a
/// crash leaves the old files, the new ones, or a folder without a marker, never a mixture.
class OutputFolder {
 public:
  /// Creates and locks the folder, and begins every file of `names`. Throws ConfigError if another process holds the
  /// lock, and if a file exists already unless `overwrite`; otherwise as OutputFile.
  OutputFolder(std::string folder, const std::vector<std::string>& names, bool overwrite);
  /// The file of the i-th name.
  [[nodiscard]] OutputFile& file(std::size_t i) { return *files_.at(i); }
  /// Throws Error (run-time failure).
  void commit();

 private:
  FolderLock lock_;  // outlives the files, so that an empty folder is removed
  std::vector<std::unique_ptr<OutputFile>> files_;
};

}  // namespace periscope
