#include "tests/outputs/disk_faults.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <regex>

namespace periscope::testing {
namespace {

constexpr std::int64_t unlimited = -1;

struct Disk {
  std::int64_t room = unlimited;
  std::int64_t at_once = std::numeric_limits<std::int64_t>::max();
  bool is_logging = false;
  std::vector<std::string> log;
  int log_file = -1;
};

Disk& disk() {
  static Disk& only = *new Disk([] {
    Disk from_environment;
    if (const char* room = std::getenv("DISK_ROOM"); room != nullptr) from_environment.room = std::atoll(room);
    if (const char* path = std::getenv("DISK_LOG"); path != nullptr) {
      from_environment.log_file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    return from_environment;
  }());
  return only;
}

void note(const std::string& line) {
  if (disk().is_logging) disk().log.push_back(line);
  if (disk().log_file < 0) return;
  const std::string text = line + "\n";
  [[maybe_unused]] const long written = ::syscall(SYS_write, disk().log_file, text.data(), text.size());
}

bool is_regular(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

/// Returns the number of bytes that fit, or -1 with errno if the disk is full.
std::int64_t granted(int descriptor, std::size_t size) {
  const auto wanted = std::min(static_cast<std::int64_t>(size), disk().at_once);
  static std::mutex threads;
  const std::lock_guard lock(threads);
  if (disk().room == unlimited || wanted == 0 || !is_regular(descriptor)) return wanted;
  if (disk().room == 0) {
    errno = ENOSPC;
    return -1;
  }
  const std::int64_t bytes = std::min(wanted, disk().room);
  disk().room -= bytes;
  return bytes;
}

std::string name_of(int descriptor) {
  std::array<char, 4096> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), name.data(), name.size());
  return {name.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

}  // namespace

DiskWithRoom::DiskWithRoom(std::int64_t bytes) { disk().room = bytes; }

DiskWithRoom::~DiskWithRoom() { disk().room = unlimited; }

ShortWrites::ShortWrites(std::int64_t bytes) { disk().at_once = bytes; }

ShortWrites::~ShortWrites() { disk().at_once = std::numeric_limits<std::int64_t>::max(); }

DiskLog::DiskLog(std::string without) : without_(std::move(without)) {
  disk().log.clear();
  disk().is_logging = true;
}

DiskLog::~DiskLog() { disk().is_logging = false; }

std::vector<std::string> DiskLog::lines() const {
  std::vector<std::string> lines;
  for (std::string line : disk().log) {
    for (std::size_t at = line.find(without_); at != std::string::npos; at = line.find(without_)) {
      line.erase(at, without_.size());
    }
    lines.push_back(std::regex_replace(line, std::regex("[0-9a-f]{16}\\.tmp"), "*.tmp"));
  }
  return lines;
}

}  // namespace periscope::testing

// Replacements of the functions of the C library.
extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t size) {
  const auto room = periscope::testing::granted(descriptor, size);
  return room < 0 ? -1 : ::syscall(SYS_write, descriptor, bytes, room);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t position) {
  const auto room = periscope::testing::granted(descriptor, size);
  return room < 0 ? -1 : ::syscall(SYS_pwrite64, descriptor, bytes, room, position);
}

int fallocate(int descriptor, int mode, off_t position, off_t size) {
  if (periscope::testing::disk().room == periscope::testing::unlimited) {
    return static_cast<int>(::syscall(SYS_fallocate, descriptor, mode, position, size));
  }
  errno = EOPNOTSUPP;
  return -1;
}

int fsync(int descriptor) {
  const auto result = static_cast<int>(::syscall(SYS_fsync, descriptor));
  periscope::testing::note("sync " + periscope::testing::name_of(descriptor));
  return result;
}

int rename(const char* from, const char* to) noexcept {
  periscope::testing::note(std::string("rename ") + from + " " + to);
  return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

int unlink(const char* path) noexcept {
  periscope::testing::note(std::string("unlink ") + path);
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
}
