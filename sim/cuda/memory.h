#pragma once

#include <cstdint>
#include <type_traits>

#include "sim/cuda/element.h"

/// Pointers to device memory, which count accesses in the host execution.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Number and bytes of the accesses to device memory by one host thread.
struct Accesses {
  Index count = 0;
  Index read = 0;
  Index written = 0;
};
#ifndef __CUDACC__
inline constinit thread_local Accesses accesses;
#endif

/// 16 bytes of elements: one vector load or store.
template <class T>
struct alignas(16) Pack {
  static constexpr Index size = 16 / sizeof(T);
  T elements[size];
};

/// A pointer to device memory that a kernel reads (T is const) or writes. Reads through an Out count as writes.
template <class T>
class Pointer {
 public:
  using Element = std::remove_const_t<T>;
  Pointer() = default;
  PERISCOPE_HOST_DEVICE Pointer(T* data) : data_(data) {}      // NOLINT(google-explicit-constructor)
  PERISCOPE_HOST_DEVICE operator T*() const { return data_; }  // NOLINT(google-explicit-constructor)
  PERISCOPE_HOST_DEVICE T& operator[](Index i) const { return *counted(data_ + i); }
  PERISCOPE_HOST_DEVICE Pointer operator+(Index i) const { return data_ + i; }

  /// Loads the next min(count, Pack::size) elements from i, followed by zeros; full packs at multiples of 16 bytes with
  /// one vector load.
  PERISCOPE_HOST_DEVICE Pack<Element> pack(Index i, Index count) const {
    if (is_vector(i, count)) return *counted(reinterpret_cast<const Pack<Element>*>(data_ + i));
    Pack<Element> out{};
    for (Index j = 0; j < Pack<T>::size; ++j) {
      if (j < count) out.elements[j] = (*this)[i + j];
    }
    return out;
  }
  /// Stores the first min(count, Pack::size) elements at i, with one vector store where possible.
  PERISCOPE_HOST_DEVICE void store(const Pack<T>& pack, Index i, Index count) const {
    if (is_vector(i, count)) {
      *counted(reinterpret_cast<Pack<T>*>(data_ + i)) = pack;
      return;
    }
    for (Index j = 0; j < Pack<T>::size; ++j) {
      if (j < count) (*this)[i + j] = pack.elements[j];
    }
  }

 private:
  PERISCOPE_HOST_DEVICE bool is_vector(Index i, Index count) const {
    return count >= Pack<T>::size && reinterpret_cast<std::uintptr_t>(data_ + i) % sizeof(Pack<T>) == 0;
  }
  template <class Accessed>
  PERISCOPE_HOST_DEVICE static Accessed* counted(Accessed* at) {
#ifndef __CUDACC__
    ++accesses.count;
    (std::is_const_v<T> ? accesses.read : accesses.written) += static_cast<Index>(sizeof(Accessed));
#endif
    return at;
  }

  T* data_ = nullptr;
};

template <class T>
using In = Pointer<const T>;
template <class T>
using Out = Pointer<T>;

/// Atomically adds n and returns the previous value.
PERISCOPE_HOST_DEVICE inline unsigned atomic_add(unsigned& number, unsigned n) {
#ifdef __CUDA_ARCH__
  return atomicAdd(&number, n);
#else
  return __atomic_fetch_add(&number, n, __ATOMIC_RELAXED);
#endif
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
