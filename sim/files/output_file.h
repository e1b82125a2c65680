#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace periscope {

/// Registers a file that remove_temporary_files() removes while this object exists.
class RemovedAtExit {
 public:
  /// Throws std::logic_error if 64 objects exist already.
  explicit RemovedAtExit(const std::string& path);
  RemovedAtExit(const RemovedAtExit&) = delete;
  RemovedAtExit& operator=(const RemovedAtExit&) = delete;
  ~RemovedAtExit();

 private:
  std::atomic<const char*>* slot_;
};

/// Removes the files of all RemovedAtExit objects of all threads. Async-signal-safe, for handlers that end the process.
void remove_temporary_files() noexcept;

/// A file written atomically: data goes to a temporary file in the same folder, which is synced and renamed. The
/// destructor or a terminating signal removes the temporary file; after SIGKILL, the next writer of the path does.
class OutputFile {
 public:
  /// Creates the temporary file, and the folder if needed. If `path` is a symbolic link, its target is replaced. Throws
  /// like replaceable_file and create_folders; also Error (run-time failure), naming `path`, if a system call fails.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Preallocates disk space if the file system supports it. Throws Error if there is not enough space.
  void reserve(std::uint64_t bytes);
  /// Writes at a byte offset, which may be beyond the end. Throws Error (run-time failure) naming the path.
  void write_at(std::uint64_t position, std::string_view bytes);

  /// Calls sync() and publish(), then syncs the folder. Throws Error (run-time failure).
  void commit();
  /// The first two steps of commit(), for sets of files that are published together.
  void sync();
  void publish();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The resolved path of the file to create or replace.
  [[nodiscard]] const std::string& target() const { return target_; }

 private:
  void create();

  std::string path_;
  std::string target_;
  std::string temporary_;
  std::optional<RemovedAtExit> removed_;
  int descriptor_ = -1;
};

/// Removes a temporary file unless a running process has it locked.
void remove_if_abandoned(const std::string& path);

/// Writes all bytes to a descriptor, waiting until it is writable. Returns 0 or errno.
[[nodiscard]] int write_all(int descriptor, std::string_view bytes) noexcept;

/// Writes a file atomically (see OutputFile).
void write_file(const std::string& path, std::string_view bytes);

/// Writes a file atomically, or writes to a FIFO, a device or /dev/stdout. Throws like destination_of and OutputFile.
void write_file_or_stream(const std::string& path, std::string_view bytes);

}  // namespace periscope
