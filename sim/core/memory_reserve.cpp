#include "sim/core/memory_reserve.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>

#include "sim/core/storage.h"

namespace periscope {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20U;
/// Blocks from malloc. Freeing the first block lets the first failing allocation succeed, which may be in a destructor.
/// The second block is for destructors: it is freed just before std::bad_alloc is thrown, or while the stack unwinds.
std::array<std::atomic<void*>, 2> reserve;
std::new_handler previous = nullptr;

/// Frees memory and returns, so that operator new retries, or throws std::bad_alloc.
void on_failed_allocation() {
  if (host_pool().idle_bytes() > 0) return free_idle_memory();
  for (std::atomic<void*>& block : reserve) {
    void* const memory = block.exchange(nullptr);
    if (memory == nullptr) continue;
    std::free(memory);
    if (&block == &reserve.front() || std::uncaught_exceptions() > 0) return;
    break;
  }
  if (previous != nullptr) return previous();
  throw std::bad_alloc();
}

}  // namespace

void install_out_of_memory_handler() {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  (void)host_pool();  // creates the pool now, because the handler must not allocate
  for (std::atomic<void*>& block : reserve) {
    if (block == nullptr) block = std::malloc(block_bytes);
  }
  const std::new_handler current = std::get_new_handler();
  if (current == on_failed_allocation) return;  // otherwise the handler would call itself
  previous = current;
  std::set_new_handler(on_failed_allocation);
}

}  // namespace periscope
