#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace periscope::testing {

/// An empty folder of its own, removed with all that is in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }

  /// The path of a file in it, which need not exist; `file` may name a folder within.
  [[nodiscard]] std::string path(const std::string& file) const { return (path_ / file).string(); }

  /// Writes a file, and the folder it is in, and returns its path.
  std::string write(const std::string& file, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

/// The bytes of a file; throws std::runtime_error if it cannot be read.
[[nodiscard]] std::string bytes_of_file(const std::string& path);

}  // namespace periscope::testing
