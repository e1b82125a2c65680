#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/cuda/element.h"

/// Device memory as kernels see it. On the host, every access is counted.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Accesses of the current thread of the host execution; an access is a load or a store of at most 16 bytes.
struct Accesses {
  Index count = 0;
  std::size_t read = 0;  ///< bytes
  std::size_t written = 0;
};
#ifndef __CUDACC__
inline constinit thread_local Accesses accesses;
#endif

PERISCOPE_HOST_DEVICE inline void count_access([[maybe_unused]] std::size_t read,
                                               [[maybe_unused]] std::size_t written) {
#ifndef __CUDACC__
  ++accesses.count;
  accesses.read += read;
  accesses.written += written;
#endif
}

/// 16 bytes of elements, which a thread loads or stores at once.
template <class T>
struct alignas(16) Pack {
  static constexpr Index size = 16 / sizeof(T);
  T elements[size];
};

/// Memory that a kernel reads.
template <class T>
class In {
 public:
  In() = default;
  PERISCOPE_HOST_DEVICE In(const T* data) : data_(data) {}  // NOLINT(google-explicit-constructor)
  PERISCOPE_HOST_DEVICE T operator[](Index i) const {
    count_access(sizeof(T), 0);
    return data_[i];
  }
  /// Elements i … i + count − 1, followed by zeros; count ≤ Pack<T>::size. One access if they are complete and aligned.
  PERISCOPE_HOST_DEVICE Pack<T> pack(Index i, Index count) const {
    const T* from = data_ + i;
    Pack<T> out{};
    if (count == Pack<T>::size && reinterpret_cast<std::uintptr_t>(from) % sizeof out == 0) {
      count_access(sizeof out, 0);
      return *reinterpret_cast<const Pack<T>*>(from);
    }
    for (Index j = 0; j < Pack<T>::size; ++j) {
      if (j < count) out.elements[j] = (*this)[i + j];
    }
    return out;
  }
  PERISCOPE_HOST_DEVICE In operator+(Index offset) const { return data_ + offset; }
  PERISCOPE_HOST_DEVICE explicit operator bool() const { return data_ != nullptr; }

 private:
  const T* data_ = nullptr;
};

/// Memory that a kernel writes, and may read.
template <class T>
class Out {
 public:
  /// An element: reading and assigning are one access each.
  class Element {
   public:
    PERISCOPE_HOST_DEVICE explicit Element(T* at) : at_(at) {}
    PERISCOPE_HOST_DEVICE operator T() const {  // NOLINT(google-explicit-constructor)
      count_access(sizeof(T), 0);
      return *at_;
    }
    PERISCOPE_HOST_DEVICE const Element& operator=(T value) const {
      count_access(0, sizeof(T));
      *at_ = value;
      return *this;
    }
    PERISCOPE_HOST_DEVICE const Element& operator+=(T value) const { return *this = T(*this) + value; }

   private:
    T* at_;
  };

  Out() = default;
  PERISCOPE_HOST_DEVICE Out(T* data) : data_(data) {}  // NOLINT(google-explicit-constructor)
  PERISCOPE_HOST_DEVICE Element operator[](Index i) const { return Element(data_ + i); }
  /// Adds to an element that other threads also add to, and returns its previous value.
  PERISCOPE_HOST_DEVICE T add(Index i, T value) const {
    count_access(sizeof(T), sizeof(T));
#ifdef __CUDA_ARCH__
    return atomicAdd(data_ + i, value);
#else
    return __atomic_fetch_add(data_ + i, value, __ATOMIC_RELAXED);
#endif
  }
  /// Stores the first `count` elements at i … i + count − 1.
  PERISCOPE_HOST_DEVICE void store(Index i, const Pack<T>& pack, Index count) const {
    T* to = data_ + i;
    if (count == Pack<T>::size && reinterpret_cast<std::uintptr_t>(to) % sizeof pack == 0) {
      count_access(0, sizeof pack);
      *reinterpret_cast<Pack<T>*>(to) = pack;
      return;
    }
    for (Index j = 0; j < Pack<T>::size; ++j) {
      if (j < count) (*this)[i + j] = pack.elements[j];
    }
  }
  PERISCOPE_HOST_DEVICE Out operator+(Index offset) const { return data_ + offset; }
  PERISCOPE_HOST_DEVICE explicit operator bool() const { return data_ != nullptr; }
  PERISCOPE_HOST_DEVICE operator In<T>() const { return data_; }  // NOLINT(google-explicit-constructor)

 private:
  T* data_ = nullptr;
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
