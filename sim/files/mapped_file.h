#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace periscope {

/// A regular file mapped into memory, read-only; copies share the mapping. Pages are loaded on first access. Access to
/// a page that another process has truncated raises SIGBUS. Long reads therefore call check_unchanged() before each
/// piece, which reduces the risk to a window of microseconds.
class MappedFile {
 public:
  /// Throws InputError if the path cannot be opened or is not a regular file.
  explicit MappedFile(const std::string& path);
  /// Returns a file object for `bytes` in memory, which must outlive it; messages call it `name`.
  [[nodiscard]] static MappedFile of_memory(std::string name, std::span<const std::byte> bytes);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] bool is_memory() const { return mapping_ == nullptr; }

  /// Throws InputError if the file's length or modification time has changed since it was opened.
  void check_unchanged() const;
  /// Unmaps the pages within `part` from this process (not from the page cache). The next access loads them again.
  void release(std::span<const std::byte> part) const;

 private:
  struct Mapping;
  MappedFile() = default;

  std::string path_;
  std::shared_ptr<const Mapping> mapping_;  ///< null for bytes in memory
  std::span<const std::byte> bytes_;
};

}  // namespace periscope
