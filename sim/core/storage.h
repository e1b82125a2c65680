#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "sim/core/tensor.h"

/// The memory behind tensors. Only backends include this file (the test `include_rules` checks it).
namespace periscope {

/// Buffers of host memory, aligned to 64 bytes. A buffer comes back when its last owner drops it, and is kept for the
/// next request of its size: fresh pages cost more than most ops. Idle buffers hold at most `limit` bytes together;
/// those that were idle longest are freed first. Buffers below 4 KiB do not count: every thread keeps up to 64 of each
/// size for itself, without a lock. Safe for threads.
class BufferPool {
 public:
  explicit BufferPool(std::size_t limit) : limit_(limit) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool() { clear(); }

  /// At least `bytes` bytes, contents undefined. The pool must outlive the buffer.
  [[nodiscard]] std::shared_ptr<void> take(std::size_t bytes);
  [[nodiscard]] std::size_t idle_bytes() const;
  /// Frees all idle buffers.
  void clear();

 private:
  struct Idle {
    void* memory;
    std::size_t stamp;
  };
  void give_back(void* memory, std::size_t bytes);
  void free_oldest();

  std::size_t limit_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::deque<Idle>> idle_;  // by size; the longest idle in front
  std::size_t idle_bytes_ = 0;
  std::size_t returns_ = 0;
};

/// The pool of this process, for all backends in host memory; keeps at most 256 MiB. It is never destroyed.
BufferPool& host_pool();

/// A tensor in host memory, contents undefined.
Tensor host_tensor(Tensor::Index rows, Tensor::Index cols, DType dtype);

/// The only access to a tensor's buffer.
struct TensorMemory {
  /// Throws std::logic_error if the tensor has another dtype, or is not in host memory.
  [[nodiscard]] static void* on_host(const Tensor& x, DType wanted);
  /// Whether no other tensor shares x's buffer, so that it may be overwritten.
  [[nodiscard]] static bool is_sole_owner(const Tensor& x);
};

template <class T>
[[nodiscard]] const T* elements(const Tensor& x) {
  return static_cast<const T*>(TensorMemory::on_host(x, dtype_of<T>));
}
template <class T>
[[nodiscard]] T* elements(Tensor& x) {
  return static_cast<T*>(TensorMemory::on_host(x, dtype_of<T>));
}

}  // namespace periscope
