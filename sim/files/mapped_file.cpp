#include "sim/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/files/destination.h"

namespace periscope {

struct MappedFile::Mapping {
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
    if (descriptor >= 0) ::close(descriptor);
  }
  int descriptor = -1;
  std::span<const std::byte> bytes;
  timespec modified{};
};

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const auto mapping = std::make_shared<Mapping>();
  // O_NONBLOCK: otherwise opening a FIFO would wait for a writer.
  mapping->descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (mapping->descriptor < 0) throw InputError(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  struct stat status {};
  if (::fstat(mapping->descriptor, &status) != 0) {
    throw InputError(fmt::format("{}: cannot stat: {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    throw InputError(fmt::format("{}: expected a regular file, found {}", path, kind_of_file(status.st_mode)));
  }
  mapping->modified = status.st_mtim;
  mapping_ = mapping;
  const auto length = static_cast<std::size_t>(status.st_size);
  if (length == 0) return;  // mmap would fail
  void* const address = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, mapping->descriptor, 0);
  if (address == MAP_FAILED) {
    throw InputError(fmt::format("{}: cannot map {} bytes: {}", path, length, std::strerror(errno)));
  }
  bytes_ = mapping->bytes = {static_cast<const std::byte*>(address), length};
}

MappedFile MappedFile::of_memory(std::string name, std::span<const std::byte> bytes) {
  MappedFile file;
  file.path_ = std::move(name);
  file.bytes_ = bytes;
  return file;
}

void MappedFile::check_unchanged() const {
  if (is_memory()) return;
  struct stat status {};
  const timespec& modified = mapping_->modified;
  if (::fstat(mapping_->descriptor, &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes_.size() ||
      status.st_mtim.tv_sec != modified.tv_sec || status.st_mtim.tv_nsec != modified.tv_nsec) {
    throw InputError(fmt::format("{}: the file changed while it was being read; it had {} bytes, now {}", path_,
                                 bytes_.size(), status.st_size));
  }
}

void MappedFile::release(std::span<const std::byte> part) const {
  constexpr std::size_t min_size = std::size_t{64} * 1024;  // smaller parts are not worth a system call
  // Touching a page also maps its neighbours. The release starts at the beginning of the neighbourhood, to include
  // pages that were mapped again after an earlier part was released.
  constexpr std::size_t neighbourhood = std::size_t{2} * 1024 * 1024;
  if (part.size() < min_size || is_memory()) return;
  const auto first = static_cast<std::size_t>(part.data() - bytes_.data());
  const std::size_t begin = first / neighbourhood * neighbourhood;
  const std::size_t end = first + part.size();
  // Unchecked: a failure only wastes memory.
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace periscope
