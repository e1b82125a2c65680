#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>

#include "sim/core/tensor.h"

/// The memory behind tensors. Only backends include this file (the test `include_rules` checks it).
namespace periscope {

/// Pool of host buffers, aligned to 64 bytes. A dropped buffer is reused by the next request of its size, since fresh
/// pages cost more than most ops. Idle buffers hold at most `limit` bytes, or up to `most` as long as idle and used
/// buffers together stay below the peak of used bytes. The longest idle ones are freed first. Buffers below 4 KiB do
/// not count: every thread caches up to 64 of each size, without a lock. Safe for threads. Dropping a buffer never
/// allocates, so that it works when memory has run out: lists of idle buffers are linked through the buffers
/// themselves.
class BufferPool {
 public:
  explicit BufferPool(std::size_t limit, std::size_t most = 0) : limit_(limit), most_(most) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool() { clear(); }

  /// At least `bytes` bytes, contents undefined. The pool must outlive the buffer.
  [[nodiscard]] std::shared_ptr<void> take(std::size_t bytes);
  [[nodiscard]] std::size_t idle_bytes() const;
  /// Frees all idle buffers.
  void clear();

 private:
  /// Stored in the first bytes of an idle buffer.
  struct Idle {
    std::size_t bytes;
    boost::intrusive::list_member_hook<> by_age, of_size;
  };
  template <boost::intrusive::list_member_hook<> Idle::*hook>
  using IdleList =
      boost::intrusive::list<Idle, boost::intrusive::member_hook<Idle, boost::intrusive::list_member_hook<>, hook>>;

  void give_back(void* memory, std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t allowed() const;
  [[nodiscard]] IdleList<&Idle::of_size>& idle_of(std::size_t size);
  void unlink(Idle& buffer);
  void free_oldest();

  std::size_t limit_, most_;
  mutable std::mutex mutex_;
  IdleList<&Idle::by_age> idle_;  // longest idle first
  std::array<IdleList<&Idle::of_size>, std::size_t{8} * std::numeric_limits<std::size_t>::digits> idle_by_size_;
  std::size_t idle_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;  // of those in use, up to the last return of a buffer
};

/// The pool of this process: 256 MiB, or up to 2 GiB below its peak. It is never destroyed.
BufferPool& host_pool();

/// A tensor in host memory, contents undefined.
Tensor host_tensor(Tensor::Index rows, Tensor::Index cols, DType dtype);

/// The only access to a tensor's buffer.
struct TensorMemory {
  /// The address of x's elements on its own device. Throws std::logic_error for another dtype.
  [[nodiscard]] static void* address(const Tensor& x, DType wanted);
  /// The address of x's elements in host memory. Throws std::logic_error for another device or dtype.
  [[nodiscard]] static void* on_host(const Tensor& x, DType wanted);
  /// True if no other tensor shares x's buffer, so that it may be overwritten.
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
