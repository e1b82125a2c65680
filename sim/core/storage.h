#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>

#include "sim/core/tensor.h"

/// The memory of tensors. Only backends may include this file, as the test `include_rules` checks.
namespace periscope {

/// Pool of host buffers, aligned to 64 bytes. Later requests of the same size reuse a freed buffer, because fresh pages
/// cost more than most ops. Idle buffers take at most `limit` bytes, or up to `peak_limit` while idle and used buffers
/// together stay below the peak of used bytes. The buffers idle for longest are freed first. Buffers below 4 KiB are
/// not counted: each thread caches up to 64 per size, without a lock. Thread-safe. Returning a buffer never allocates,
/// so it works when memory has run out: the lists of idle buffers are linked through the buffers themselves.
class BufferPool {
 public:
  explicit BufferPool(std::size_t limit, std::size_t peak_limit = 0) : limit_(limit), peak_limit_(peak_limit) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool() { clear(); }

  /// Returns at least `bytes` bytes with undefined contents. The pool must outlive the buffer.
  [[nodiscard]] std::shared_ptr<void> take(std::size_t bytes);
  [[nodiscard]] std::size_t idle_bytes() const;
  void clear();

 private:
  /// Size and list links of an idle buffer, stored in its first bytes.
  struct Idle {
    std::size_t bytes;
    boost::intrusive::list_member_hook<> by_age, same_size;
  };
  template <boost::intrusive::list_member_hook<> Idle::*hook>
  using IdleList =
      boost::intrusive::list<Idle, boost::intrusive::member_hook<Idle, boost::intrusive::list_member_hook<>, hook>>;

  void give_back(void* memory, std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t max_idle_bytes() const;
  [[nodiscard]] IdleList<&Idle::same_size>& idle_of(std::size_t size);
  void unlink(Idle& buffer);
  void free_oldest();

  std::size_t limit_, peak_limit_;
  mutable std::mutex mutex_;
  IdleList<&Idle::by_age> idle_;  // all idle buffers, the longest idle first
  std::array<IdleList<&Idle::same_size>, std::size_t{8} * std::numeric_limits<std::size_t>::digits> idle_by_size_;
  std::size_t idle_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;  // peak of used_bytes_; updated when a buffer is returned
};

/// The pool of this process: limit 256 MiB, peak_limit 2 GiB. It is never destroyed.
BufferPool& host_pool();

/// Returns a tensor in host memory with undefined contents.
Tensor host_tensor(Tensor::Index rows, Tensor::Index cols, DType dtype);

/// The only access to a tensor's buffer.
struct TensorMemory {
  /// Returns the address of x's elements on its device. Throws std::logic_error if the dtype differs.
  [[nodiscard]] static void* address(const Tensor& x, DType wanted);
  /// Returns the address of x's elements in host memory. Throws std::logic_error if the device or dtype differs.
  [[nodiscard]] static void* on_host(const Tensor& x, DType wanted);
  /// Returns true if no other tensor shares x's buffer, so that it may be overwritten.
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
