#include "tests/measure/live_bytes.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> total{0};
std::atomic<bool> is_out_of_memory{false};

/// Size of the header before every block: the alignment guaranteed by plain operator new.
constexpr std::size_t header = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

// Replaces the sanitizers' nothrow operator new, whose blocks have no header.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  void* block = is_out_of_memory ? nullptr : std::malloc(header + bytes);
  if (block == nullptr) return nullptr;
  *static_cast<std::size_t*>(block) = bytes;
  total += bytes;
  return static_cast<char*>(block) + header;
}

void* operator new(std::size_t bytes) {
  void* block = operator new(bytes, std::nothrow);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

/// Aligned blocks are not counted.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  void* block = is_out_of_memory ? nullptr : std::aligned_alloc(step, (bytes + step - 1) / step * step);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void operator delete(void* pointer, std::align_val_t /*alignment*/) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(pointer);
}

void operator delete(void* pointer) noexcept {
  if (pointer == nullptr) return;
  void* block = static_cast<char*>(pointer) - header;
  total -= *static_cast<std::size_t*>(block);
  std::free(block);
}

void operator delete(void* pointer, std::size_t /*bytes*/) noexcept { operator delete(pointer); }

namespace periscope::testing {

std::size_t live_bytes() { return total; }

NoMemory::NoMemory() { is_out_of_memory = true; }
NoMemory::~NoMemory() { is_out_of_memory = false; }

}  // namespace periscope::testing
