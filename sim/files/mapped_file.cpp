#include "sim/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/base/error.h"

namespace periscope {
namespace {

std::string kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (S_ISFIFO(status.st_mode)) return "a pipe";
  if (S_ISSOCK(status.st_mode)) return "a socket";
  return "a device";
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a pipe would wait for somebody to write to it.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor_ < 0) throw InputError(fmt::format("{}: cannot open it: {}", path, std::strerror(errno)));
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      throw InputError(fmt::format("{}: cannot look at it: {}", path, std::strerror(errno)));
    }
    if (!S_ISREG(status.st_mode)) {
      throw InputError(fmt::format("{}: this is {}, expected a regular file", path, kind_of(status)));
    }
    seconds_ = status.st_mtim.tv_sec;
    nanoseconds_ = status.st_mtim.tv_nsec;
    const auto length = static_cast<std::size_t>(status.st_size);
    if (length == 0) return;  // mmap refuses it
    void* const address = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor_, 0);
    if (address == MAP_FAILED) {
      throw InputError(fmt::format("{}: cannot map its {} bytes: {}", path, length, std::strerror(errno)));
    }
    bytes_ = {static_cast<const std::byte*>(address), length};
  } catch (...) {
    close();
    throw;
  }
}

MappedFile MappedFile::of_memory(std::string name, std::span<const std::byte> bytes) {
  MappedFile file;
  file.path_ = std::move(name);
  file.bytes_ = bytes;
  return file;
}

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, {})),
      seconds_(other.seconds_),
      nanoseconds_(other.nanoseconds_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    bytes_ = std::exchange(other.bytes_, {});
    seconds_ = other.seconds_;
    nanoseconds_ = other.nanoseconds_;
  }
  return *this;
}

void MappedFile::close() noexcept {
  if (!bytes_.empty() && !is_memory()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
  bytes_ = {};
  descriptor_ = -1;
}

void MappedFile::check_unchanged() const {
  if (is_memory()) return;
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes_.size() ||
      status.st_mtim.tv_sec != seconds_ || status.st_mtim.tv_nsec != nanoseconds_) {
    throw InputError(fmt::format("{}: the file was changed while it was being read: it had {} bytes and has {}", path_,
                                 bytes_.size(), status.st_size));
  }
}

void MappedFile::release(std::span<const std::byte> part) const {
  constexpr std::size_t worth_a_call = 64 * 1024;
  // The system maps the neighbours of a page that is touched, also those before it. So the release begins at the start
  // of the neighbourhood, which takes the pages along that came back after an earlier part's release.
  constexpr std::size_t neighbourhood = 2 * 1024 * 1024;
  if (part.size() < worth_a_call || is_memory()) return;
  const auto first = static_cast<std::size_t>(part.data() - bytes_.data());
  const std::size_t begin = first / neighbourhood * neighbourhood;
  const std::size_t end = first + part.size();
  // The result is not checked: without the release the process only holds more memory.
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace periscope
