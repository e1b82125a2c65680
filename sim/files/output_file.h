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

/// A file that is written atomically: under a unique temporary name in the same folder, synced, and renamed. The
/// destructor or a terminating signal removes the temporary file; that of a killed process is removed by the next
/// writer.
class OutputFile {
 public:
  /// Creates the temporary file, and the folder if needed. A symbolic link is followed and its target replaced. Throws
  /// as replaceable_file and create_folders, and Error (run-time failure) naming `path` if the system refuses.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Allocates disk space where the file system can. Throws Error if there is too little.
  void reserve(std::uint64_t bytes);
  /// Writes at a position, which may lie beyond the end. Throws Error (run-time failure) naming the path.
  void write_at(std::uint64_t position, std::string_view bytes);

  /// Sync, publish, and sync of the folder. Throws Error (run-time failure).
  void commit();
  /// The first two steps of commit, for files that appear together.
  void sync();
  void publish();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The file to be replaced.
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
void remove_if_abandoned(const std::string& path);

/// Writes all bytes to a descriptor, waiting as needed. Returns 0 or errno.
[[nodiscard]] int write_all(int descriptor, std::string_view bytes) noexcept;

/// Writes a file atomically (OutputFile).
void write_file(const std::string& path, std::string_view bytes);

/// Writes a file as write_file, or into a FIFO, a device or /dev/stdout. Throws as destination_of.
void write_file_or_stream(const std::string& path, std::string_view bytes);

}  // namespace periscope
