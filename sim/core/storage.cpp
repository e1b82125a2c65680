#include "sim/core/storage.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <stdexcept>

namespace periscope {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::size_t smallest_pooled = 4096;

/// Sizes are rounded up to one of eight steps per power of two, so that requests of nearly one size share buffers.
std::size_t rounded_up(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

void release(void* memory) { ::operator delete(memory, alignment); }

}  // namespace

std::shared_ptr<void> BufferPool::take(std::size_t bytes) {
  if (bytes < smallest_pooled) return {::operator new(bytes, alignment), release};
  const std::size_t size = rounded_up(bytes);
  void* memory = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = idle_.find(size);
    if (found != idle_.end()) {
      memory = found->second.back().memory;
      found->second.pop_back();
      if (found->second.empty()) idle_.erase(found);
      idle_bytes_ -= size;
    }
  }
  if (memory == nullptr) memory = ::operator new(size, alignment);
  return {memory, [this, size](void* p) { give_back(p, size); }};
}

void BufferPool::give_back(void* memory, std::size_t bytes) {
  if (bytes > limit_) return release(memory);
  const std::scoped_lock lock(mutex_);
  while (idle_bytes_ + bytes > limit_) free_oldest();
  idle_[bytes].push_back({memory, returns_++});
  idle_bytes_ += bytes;
}

void BufferPool::free_oldest() {
  const auto oldest = std::ranges::min_element(
      idle_, {}, [](const auto& size_and_buffers) { return size_and_buffers.second.front().stamp; });
  release(oldest->second.front().memory);
  oldest->second.pop_front();
  idle_bytes_ -= oldest->first;
  if (oldest->second.empty()) idle_.erase(oldest);
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
  static BufferPool& pool = *new BufferPool(std::size_t{256} << 20U);  // tensors may outlive every static object
  return pool;
}

Tensor host_tensor(Tensor::Index rows, Tensor::Index cols, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
  return {rows, cols, dtype, Device::host, host_pool().take(bytes)};
}

void* TensorMemory::on_host(const Tensor& x, DType wanted) {
  if (wanted != x.dtype_) throw std::logic_error("tensor read with the wrong dtype");
  if (x.device_ != Device::host) throw std::logic_error("tensor is not in host memory");
  return x.buffer_.get();
}

bool TensorMemory::is_sole_owner(const Tensor& x) {
  if (x.buffer_.use_count() != 1) return false;
  std::atomic_thread_fence(std::memory_order_acquire);  // after what the last other owner read
  return true;
}

}  // namespace periscope
