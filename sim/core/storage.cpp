#include "sim/core/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <stdexcept>
#include <utility>

#include "sim/core/memory_reserve.h"

namespace periscope {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::size_t smallest_pooled = 4096;

/// Rounds up to one of eight sizes per power of two, so that requests of similar size share buffers.
std::size_t rounded_up(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

/// Large buffers are aligned to huge pages and request them. Thousands of fresh small pages cost as much as an
/// elementwise op, and cause TLB misses in matrix products.
constexpr std::size_t huge_page = std::size_t{2} << 20U;
bool has_huge_pages(std::size_t bytes) { return bytes >= 2 * huge_page; }

void* acquire(std::size_t bytes) {
  if (!has_huge_pages(bytes)) return ::operator new(bytes, alignment);
  void* const memory = ::operator new (bytes, std::align_val_t{huge_page});
  (void)madvise(memory, bytes, MADV_HUGEPAGE);  // advisory; failure is harmless
  return memory;
}

void release(void* memory, std::size_t bytes) {
  ::operator delete(memory, has_huge_pages(bytes) ? std::align_val_t{huge_page} : alignment);
}

/// The idle small buffers of one thread, by size in steps of 64 bytes. They are cached because an aligned allocation
/// costs about as much as a small op.
struct SmallBuffers {
  static constexpr std::size_t step = 64;
  static constexpr std::size_t max_idle = 64;  ///< maximum number of idle buffers per size
  /// A stack, linked through the first bytes of its buffers.
  struct Stack {
    struct Buffer {
      Buffer* next;
    };
    Buffer* top = nullptr;
    std::size_t size = 0;

    void push(void* memory) noexcept {
      top = ::new (memory) Buffer{top};
      ++size;
    }
    /// Returns nullptr if the stack is empty.
    void* pop() noexcept {
      if (top == nullptr) return nullptr;
      --size;
      return std::exchange(top, top->next);
    }
  };
  std::array<Stack, smallest_pooled / step + 1> idle;

  SmallBuffers() = default;
  SmallBuffers(const SmallBuffers&) = delete;
  SmallBuffers& operator=(const SmallBuffers&) = delete;
  ~SmallBuffers();
};

// True once small_buffers is destroyed. Buffers returned later are freed, not cached.
thread_local bool thread_exiting = false;
thread_local SmallBuffers small_buffers;

SmallBuffers::~SmallBuffers() {
  thread_exiting = true;
  for (Stack& buffers : idle) {
    while (void* const memory = buffers.pop()) release(memory, step);
  }
}

std::shared_ptr<void> take_small(std::size_t bytes) {
  const std::size_t steps = (bytes + SmallBuffers::step - 1) / SmallBuffers::step;
  const std::size_t size = std::max(steps, std::size_t{1}) * SmallBuffers::step;
  void* memory = thread_exiting ? nullptr : small_buffers.idle[steps].pop();
  if (memory == nullptr) memory = acquire(size);
  return {memory, [steps, size](void* p) noexcept {
            if (thread_exiting || small_buffers.idle[steps].size == SmallBuffers::max_idle) return release(p, size);
            small_buffers.idle[steps].push(p);
          }};
}

}  // namespace

std::shared_ptr<void> BufferPool::take(std::size_t bytes) {
  if (bytes < smallest_pooled) return take_small(bytes);
  const std::size_t size = rounded_up(bytes);
  void* memory = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (auto& idle = idle_of(size); !idle.empty()) {
      memory = &idle.back();
      unlink(idle.back());
    }
    used_bytes_ += size;
    while (idle_bytes_ > max_idle_bytes()) free_oldest();
  }
  try {
    if (memory == nullptr) memory = acquire(size);
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    used_bytes_ -= size;
    throw;
  }
  return {memory, [this, size](void* p) noexcept { give_back(p, size); }};
}

void BufferPool::give_back(void* memory, std::size_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  used_bytes_ -= bytes;
  if (bytes > max_idle_bytes()) return release(memory, bytes);
  while (idle_bytes_ + bytes > max_idle_bytes()) free_oldest();
  Idle& buffer = *::new (memory) Idle{.bytes = bytes, .by_age = {}, .same_size = {}};
  idle_.push_back(buffer);
  idle_of(bytes).push_back(buffer);
  idle_bytes_ += bytes;
}

/// Returns the list for a size. Lists are indexed by the position of the leading bit and the three bits after it; all
/// lower bits are 0 (rounded_up).
BufferPool::IdleList<&BufferPool::Idle::same_size>& BufferPool::idle_of(std::size_t size) {
  const auto exponent = static_cast<std::size_t>(std::bit_width(size)) - 1;
  return idle_by_size_[8 * exponent + (size >> (exponent - 3)) % 8];
}

void BufferPool::unlink(Idle& buffer) {
  idle_bytes_ -= buffer.bytes;
  idle_.erase(idle_.iterator_to(buffer));
  auto& same = idle_of(buffer.bytes);
  same.erase(same.iterator_to(buffer));
}

std::size_t BufferPool::max_idle_bytes() const {
  return std::max(limit_, std::min(peak_limit_, std::max(peak_bytes_, used_bytes_) - used_bytes_));
}

void BufferPool::free_oldest() {
  Idle& oldest = idle_.front();
  const std::size_t bytes = oldest.bytes;
  unlink(oldest);
  release(&oldest, bytes);
}

std::size_t BufferPool::idle_bytes() const {
  const std::scoped_lock lock(mutex_);
  return idle_bytes_;
}

void BufferPool::clear() {
  const std::scoped_lock lock(mutex_);
  while (!idle_.empty()) free_oldest();
}

BufferPool& host_pool() {
  static BufferPool& pool =
      *new BufferPool(std::size_t{256} << 20U, std::size_t{2} << 30U);  // tensors may outlive every static object
  return pool;
}

void free_idle_memory() { host_pool().clear(); }

Tensor host_tensor(Tensor::Index rows, Tensor::Index cols, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
  return {rows, cols, dtype, Device::host, host_pool().take(bytes)};
}

void* TensorMemory::address(const Tensor& x, DType wanted) {
  if (wanted != x.dtype_) throw std::logic_error("tensor read with the wrong dtype");
  return x.buffer_.get();
}

void* TensorMemory::on_host(const Tensor& x, DType wanted) {
  if (x.device_ != Device::host) throw std::logic_error("tensor is not in host memory");
  return address(x, wanted);
}

bool TensorMemory::is_sole_owner(const Tensor& x) {
  if (x.buffer_.use_count() != 1) return false;
  std::atomic_thread_fence(std::memory_order_acquire);  // orders the reads of other owners before our writes
  return true;
}

}  // namespace periscope
