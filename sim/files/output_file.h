#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace periscope {

/// While this lives, remove_temporary_files() removes the file at `path`.
class RemovedAtExit {
 public:
  /// Throws std::logic_error if 64 are alive.
  explicit RemovedAtExit(const std::string& path);
  RemovedAtExit(const RemovedAtExit&) = delete;
  RemovedAtExit& operator=(const RemovedAtExit&) = delete;
  ~RemovedAtExit();

 private:
  std::atomic<const char*>* slot_;
};

/// Removes the files of every living RemovedAtExit, in any thread. Async-signal-safe, for a handler that ends the
/// process.
void remove_temporary_files() noexcept;

/// A file that has its name only when it is whole: it is written under a temporary name beside it, synced, and renamed.
/// The temporary name is this writer's alone. It goes when this goes, or when a signal ends the process; what a killed
/// process has left is removed by the next writer of the same file.
class OutputFile {
 public:
  /// Creates the temporary file, and the folder if needed: what is in the way of writing is said here. A symbolic link
  /// is followed; what it leads to will be replaced. Throws as replaceable_file and create_folders do, and Error
  /// (run-time failure) naming `path` if the system refuses.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Asks for the room of so many bytes at once, where the file system can. Throws Error if there is too little.
  void reserve(std::uint64_t bytes);
  /// Writes at a position, which may lie beyond the end. Throws Error (run-time failure) naming the path.
  void write_at(std::uint64_t position, std::string_view bytes);

  /// Makes the file last under its name: sync, publish, and the folder's sync. Throws Error (run-time failure).
  void commit();
  /// The first two steps of commit, for files that appear together.
  void sync();
  void publish();

  /// Returns the path as it was given.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Returns the path of the file to be replaced.
  [[nodiscard]] const std::string& target() const { return target_; }

 private:
  void create();

  std::string path_;
  std::string target_;
  std::string temporary_;
  std::optional<RemovedAtExit> removed_;
  int descriptor_ = -1;
};

/// Removes a temporary file whose writer is dead.
void remove_if_left(const std::string& path);

/// Writes all bytes to a descriptor, waiting where it has to. Returns 0, or the errno of what went wrong.
[[nodiscard]] int write_all(int descriptor, std::string_view bytes) noexcept;

/// A whole OutputFile.
void write_file(const std::string& path, std::string_view bytes);

/// Writes a file as write_file does, but writes into what is no file (a FIFO, a device, /dev/stdout). Throws as
/// destination_of does.
void write_file_or_stream(const std::string& path, std::string_view bytes);

}  // namespace periscope
