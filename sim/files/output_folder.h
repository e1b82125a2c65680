#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/files/folder_lock.h"
#include "sim/files/output_file.h"

namespace periscope {

/// Files of one folder that belong together, as a model's config.json and tensors. They appear when all of them are
/// whole. The last one marks the set as complete: in a folder with an older set it goes first and comes last, so that
/// a process or a machine that dies leaves the old files, the new ones, or a folder without its marker, never a
/// mixture.
class OutputFolder {
 public:
  /// Creates the folder if needed, locks it against other processes, and begins every file of `names`. Throws
  /// ConfigError if another process is writing into the folder, and if one of the files is there already unless
  /// `overwrite`; otherwise as OutputFile.
  OutputFolder(std::string folder, const std::vector<std::string>& names, bool overwrite);
  /// The file of the i-th name.
  [[nodiscard]] OutputFile& file(std::size_t i) { return *files_.at(i); }
  /// Throws Error (run-time failure).
  void commit();

 private:
  FolderLock lock_;  // outlives the files, so that a folder without any goes too
  std::vector<std::unique_ptr<OutputFile>> files_;
};

}  // namespace periscope
