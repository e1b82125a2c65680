// LD_PRELOAD library that makes allocations fail. Environment variables:
//   MEMORY_FAULT_AT=N     number of the first allocation that fails, counted from 1
//   MEMORY_FAULTS=K       number of consecutive allocations that fail
//   MEMORY_COUNT=FILE     file for the number of allocations, written when the program ends

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): names of glibc
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

namespace {

std::atomic<long> count{0};

long number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atol(text);
}

bool fails() {
  static const long first = number_of("MEMORY_FAULT_AT");
  static const long faults = number_of("MEMORY_FAULTS");
  const long here = ++count;
  const bool is_fault = here >= first && here - first < faults;
  if (is_fault) errno = ENOMEM;
  return is_fault;
}

struct AtExit {
  ~AtExit() {
    const char* const path = std::getenv("MEMORY_COUNT");
    if (path == nullptr) return;
    char digits[24];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), count.load());
    const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    [[maybe_unused]] const auto written = ::write(file, digits, static_cast<std::size_t>(end.ptr - digits));
    ::close(file);
  }
} at_exit;

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) { return fails() ? nullptr : __libc_malloc(bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}
}
