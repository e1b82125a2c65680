#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace periscope {

/// A regular file mapped into memory, read-only; copies share the mapping. Pages come from disk when they are touched.
/// Touching a page that another process has truncated raises SIGBUS: long reads call check_unchanged() before each
/// piece, which leaves a window of microseconds.
class MappedFile {
 public:
  /// Throws InputError for a path that cannot be opened and for anything but a regular file.
  explicit MappedFile(const std::string& path);
  /// Stands for a file called `name`, whose bytes outlive this.
  [[nodiscard]] static MappedFile of_memory(std::string name, std::span<const std::byte> bytes);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] bool is_memory() const { return mapping_ == nullptr; }

  /// Throws InputError if the file's length or modification time has changed since it was opened.
  void check_unchanged() const;
  /// Drops the pages within `part` from this process's memory (not from the system's cache). Touching brings them back.
  void release(std::span<const std::byte> part) const;

 private:
  struct Mapping;
  MappedFile() = default;

  std::string path_;
  std::shared_ptr<const Mapping> mapping_;  ///< null for memory
  std::span<const std::byte> bytes_;
};

}  // namespace periscope
