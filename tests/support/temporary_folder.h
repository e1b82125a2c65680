#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace periscope::testing {

/// A new empty folder, removed with its contents by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }

  /// Returns the path of a file in the folder, which need not exist. `file` may contain subfolders.
  [[nodiscard]] std::string path(const std::string& file) const { return (path_ / file).string(); }

  /// Writes a file, creating its folder, and returns its path.
  std::string write(const std::string& file, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

/// Returns the bytes of a file. Throws std::runtime_error if it cannot be read.
[[nodiscard]] std::string bytes_of_file(const std::string& path);

}  // namespace periscope::testing
