#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// A disk that gets full, and what reaches it in which order: disk_faults.cpp stands in for the system's calls that
/// write, sync, rename and remove regular files, in a test program that it is linked to. As a library of its own it
/// does so in any program that LD_PRELOAD loads it into, told by the environment:
///   DISK_ROOM=N     so many bytes can be written, and none further
///   DISK_LOG=FILE   a line per call: "sync PATH", "rename FROM TO", "unlink PATH"
namespace periscope::testing {

/// While this lives, the disk has room for so many bytes more. Asking for room in advance is not supported, as on some
/// file systems, unless `reserves`: then it fails where the writing would.
class DiskWithRoom {
 public:
  explicit DiskWithRoom(std::int64_t bytes, bool reserves = false);
  DiskWithRoom(const DiskWithRoom&) = delete;
  DiskWithRoom& operator=(const DiskWithRoom&) = delete;
  ~DiskWithRoom();
};

/// While this lives, no call writes more than so many bytes at once.
class ShortWrites {
 public:
  explicit ShortWrites(std::int64_t bytes);
  ShortWrites(const ShortWrites&) = delete;
  ShortWrites& operator=(const ShortWrites&) = delete;
  ~ShortWrites();
};

/// The calls since it was made, as in DISK_LOG, without the folder `without` in front of names and with the random part
/// of temporary names as "*".
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
