#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/files/output_file.h"

namespace periscope {

/// Locks a folder against other writing processes. The destructor removes the folder if this object created it and it
/// is still empty.
class FolderLock {
 public:
  /// Creates the folder if needed. Throws ConfigError if another process has the lock, otherwise like create_folders.
  explicit FolderLock(std::string folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  void release();

  std::string folder_;
  bool created_;
  int descriptor_;
};

/// A set of files in one folder, e.g. a model's config.json and tensors, published when all are complete. The last file
/// marks the set as complete: an old marker is removed first and the new one is published last. A crash leaves the old
/// files, the new files, or a folder without a marker.
class OutputFolder {
 public:
  /// Creates and locks the folder, and opens an OutputFile for every name. Throws ConfigError if another process has
  /// the lock, or if a file exists and `overwrite` is false; otherwise like OutputFile.
  OutputFolder(std::string folder, const std::vector<std::string>& names, bool overwrite);
  [[nodiscard]] OutputFile& file(std::size_t i) { return *files_.at(i); }
  /// Publishes all files, the last one as the marker. Throws Error (run-time failure).
  void commit();

 private:
  FolderLock lock_;  // destroyed after the files, so that it can remove an empty folder
  std::vector<std::unique_ptr<OutputFile>> files_;
};

}  // namespace periscope
