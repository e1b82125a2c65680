#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Simulates a full disk and logs the order of disk operations: disk_faults.cpp replaces the functions that write,
/// sync, rename and remove regular files. As an LD_PRELOAD library it is configured by the environment:
///   DISK_ROOM=N     number of bytes that can be written
///   DISK_LOG=FILE   a line per call: "sync PATH", "rename FROM TO", "unlink PATH"
namespace periscope::testing {

/// Limits the number of bytes that can be written during its lifetime. fallocate is unsupported, as on some file
/// systems.
class DiskWithRoom {
 public:
  explicit DiskWithRoom(std::int64_t bytes);
  DiskWithRoom(const DiskWithRoom&) = delete;
  DiskWithRoom& operator=(const DiskWithRoom&) = delete;
  ~DiskWithRoom();
};

/// Limits the bytes per call of write during its lifetime.
class ShortWrites {
 public:
  explicit ShortWrites(std::int64_t bytes);
  ShortWrites(const ShortWrites&) = delete;
  ShortWrites& operator=(const ShortWrites&) = delete;
  ~ShortWrites();
};

/// Logs calls during its lifetime, as in DISK_LOG, but strips the prefix `without` from paths and replaces the random
/// part of temporary names by "*".
class DiskLog {
 public:
  explicit DiskLog(std::string without);
  DiskLog(const DiskLog&) = delete;
  DiskLog& operator=(const DiskLog&) = delete;
  ~DiskLog();
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::string without_;
};

}  // namespace periscope::testing
