#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace periscope {

/// A regular file mapped into memory, read-only. Pages come from disk when they are touched, so opening a large file
/// costs nothing. Touching a page that another process has cut off since would end this one by SIGBUS: whoever reads
/// much asks check_unchanged() before each piece, which leaves a window of microseconds.
class MappedFile {
 public:
  /// Throws InputError for a path that cannot be opened and for what is no regular file (a folder, a pipe, a device).
  explicit MappedFile(const std::string& path);
  /// Bytes of this process that stand for a file, called `name`: they are there without a change while this lives.
  [[nodiscard]] static MappedFile of_memory(std::string name, std::span<const std::byte> bytes);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] bool is_memory() const { return descriptor_ < 0; }

  /// Throws InputError if the file's length or time of modification is not what it was when it was opened.
  void check_unchanged() const;

  /// Takes the pages within `part` out of this process's memory (not out of the system's cache), so that reading a
  /// large file from one end to the other needs little. They come back when they are touched again.
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  void close() noexcept;

  std::string path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
  std::int64_t seconds_ = 0;  ///< of the time of modification
  std::int64_t nanoseconds_ = 0;
};

}  // namespace periscope
