#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "sim/cuda/element.h"

/// Device memory as kernels see it. On the host, their accesses are counted.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Accesses by one thread of the host, each of at most 16 bytes.
struct Accesses {
  Index count = 0;
  Index read = 0;  ///< bytes
  Index written = 0;
};
#ifndef __CUDACC__
inline constinit thread_local Accesses accesses;
#endif

/// 16 bytes of elements, which a thread loads or stores at once.
template <class T>
struct alignas(16) Pack {
  static constexpr Index size = 16 / sizeof(T);
  T elements[size];
};

/// Memory that a kernel reads (T is const) or writes. A read of memory that it writes counts as written.
template <class T>
class Memory {
 public:
  using Element = std::remove_const_t<T>;
  Memory() = default;
  PERISCOPE_HOST_DEVICE Memory(T* data) : data_(data) {}       // NOLINT(google-explicit-constructor)
  PERISCOPE_HOST_DEVICE operator T*() const { return data_; }  // NOLINT(google-explicit-constructor)
  PERISCOPE_HOST_DEVICE T& operator[](Index i) const { return *counted(data_ + i); }
  PERISCOPE_HOST_DEVICE Memory operator+(Index i) const { return data_ + i; }

  /// Elements i … i + count − 1, then zeros. Complete packs at multiples of 16 bytes are loaded and stored at once.
  PERISCOPE_HOST_DEVICE Pack<Element> pack(Index i, Index count) const {
    if (is_whole(i, count)) return *counted(reinterpret_cast<const Pack<Element>*>(data_ + i));
    Pack<Element> out{};
    for (Index j = 0; j < Pack<T>::size; ++j) {
      if (j < count) out.elements[j] = (*this)[i + j];
    }
    return out;
  }
  PERISCOPE_HOST_DEVICE void store(const Pack<T>& pack, Index i, Index count) const {
    if (is_whole(i, count)) {
      *counted(reinterpret_cast<Pack<T>*>(data_ + i)) = pack;
      return;
    }
    for (Index j = 0; j < Pack<T>::size; ++j) {
      if (j < count) (*this)[i + j] = pack.elements[j];
    }
  }

 private:
  PERISCOPE_HOST_DEVICE bool is_whole(Index i, Index count) const {
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
using In = Memory<const T>;
template <class T>
using Out = Memory<T>;

/// Adds n to a number that other threads also add to, and returns its previous value.
PERISCOPE_HOST_DEVICE inline unsigned add_to(unsigned& number, unsigned n) {
#ifdef __CUDA_ARCH__
  return atomicAdd(&number, n);
#else
  return __atomic_fetch_add(&number, n, __ATOMIC_RELAXED);
#endif
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
