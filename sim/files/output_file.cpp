#include "sim/files/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <list>
#include <mutex>
#include <stdexcept>

#include "sim/files/destination.h"

namespace periscope {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".tmp";
constexpr std::size_t digits = 16;
constexpr std::size_t max_name_length = 255;  // limit of Linux file systems

/// Returns the prefix of the target's temporary file names, "NAME.", truncated if the full name would be too long.
std::string temporary_prefix(const std::string& target) {
  const std::string name = fs::path(target).filename().string();
  return name.substr(0, max_name_length - 1 - digits - suffix.size()) + '.';
}

std::uint64_t random_word() {
  std::uint64_t word = 0;
  while (::getrandom(&word, sizeof(word), 0) != static_cast<ssize_t>(sizeof(word))) {
  }
  return word;
}

bool is_temporary_name(std::string_view name, std::string_view prefix) {
  if (name.size() != prefix.size() + digits + suffix.size()) return false;
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return false;
  return name.substr(prefix.size(), digits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void remove_abandoned_files(const std::string& target) {
  std::error_code ignored;
  const std::string prefix = temporary_prefix(target);
  for (fs::directory_iterator entry(folder_of(target), ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (is_temporary_name(entry->path().filename().string(), prefix)) remove_if_abandoned(entry->path().string());
  }
}

// Constant-initialized and lock-free, so that a signal handler may read them at any time.
std::array<std::atomic<const char*>, 64> slots{};
static_assert(std::atomic<const char*>::is_always_lock_free);

/// Returns a copy of `path` that is never freed, because a signal handler in another thread may still read it after the
/// file is finished. A process writes few files, so the leak is small.
const char* leaked_copy(const std::string& path) {
  static std::mutex mutex;
  static auto& names = *new std::list<std::string>;
  const std::scoped_lock lock(mutex);
  return names.emplace_back(path).c_str();
}

}  // namespace

RemovedAtExit::RemovedAtExit(const std::string& path) : slot_(nullptr) {
  const char* const name = leaked_copy(path);
  for (auto& slot : slots) {
    const char* free = nullptr;
    if (!slot.compare_exchange_strong(free, name)) continue;
    slot_ = &slot;
    return;
  }
  throw std::logic_error("too many temporary files at once (at most 64): " + path);
}

RemovedAtExit::~RemovedAtExit() { *slot_ = nullptr; }

void remove_temporary_files() noexcept {
  for (const auto& slot : slots) {
    if (const char* name = slot; name != nullptr) ::unlink(name);
  }
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(replaceable_file(path_)) {
  create_folders(folder_of(target_), path_);
  remove_abandoned_files(target_);
  create();
  struct stat before {};
  if (::stat(target_.c_str(), &before) == 0) {
    // Preserve the permissions of the replaced file. Failure (a file system without modes) is harmless.
    [[maybe_unused]] const int ignored = ::fchmod(descriptor_, before.st_mode & 0777);
  }
}

void OutputFile::create() {
  for (int attempts = 0; descriptor_ < 0; ++attempts) {
    temporary_ = fmt::format("{}/{}{:016x}{}", folder_of(target_), temporary_prefix(target_), random_word(), suffix);
    removed_.emplace(temporary_);
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      if (errno == EEXIST) continue;
      if (errno == ENOENT && attempts < max_attempts) {  // another process removed the empty folder
        create_folders(folder_of(target_), path_);
        continue;
      }
      throw cannot_write(path_, errno);
    }
    // Between open and flock, another writer may have considered the file abandoned and removed it. On file systems
    // without locks (errno is not EWOULDBLOCK) no writer removes such files.
    const bool is_locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (is_locked && refers_to(temporary_, descriptor_)) return;
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  ::close(descriptor_);
}

void OutputFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  while (::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return;
    throw cannot_write(path_, errno);
  }
}

void OutputFile::write_at(std::uint64_t position, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw cannot_write(path_, written == 0 ? ENOSPC : errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
    position += static_cast<std::uint64_t>(written);
  }
}

void OutputFile::sync() {
  if (::fsync(descriptor_) != 0) throw cannot_write(path_, errno);
}

void OutputFile::publish() {
  // The file stays locked until the rename, so that no other writer considers it abandoned.
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw cannot_write(path_, errno);
  temporary_.clear();
  removed_.reset();
}

void OutputFile::commit() {
  sync();
  publish();
  sync_folder(folder_of(target_));
}

void remove_if_abandoned(const std::string& path) {
  // A live writer keeps its file locked.
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && refers_to(path, descriptor)) ::unlink(path.c_str());
  ::close(descriptor);
}

int write_all(int descriptor, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd writable{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void write_file(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write_at(0, bytes);
  file.commit();
}

void write_file_or_stream(const std::string& path, std::string_view bytes) {
  const Destination to = destination_of(path);
  if (!to.is_stream) return write_file(path, bytes);
  const int descriptor = to.descriptor ? *to.descriptor : ::open(to.path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) throw cannot_write(path, errno);
  const int error = write_all(descriptor, bytes);
  if (!to.descriptor) ::close(descriptor);
  if (error != 0) throw cannot_write(path, error);
}

}  // namespace periscope
