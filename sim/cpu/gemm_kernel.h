#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "sim/core/tensor.h"

#if defined(__clang__)
#define PERISCOPE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PERISCOPE_UNROLL _Pragma("GCC unroll 16")
#endif

/// The micro-kernel of matrix products, in the widest vectors that the target supports. gemm.cpp adds the blocking for
/// the caches (Goto and van de Geijn 2008).
namespace periscope::cpu::kernel {

using Index = Tensor::Index;

// The rows × panel_vectors sums stay in registers, together with the vectors of one panel row and one left entry.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, rows = 14;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32, rows = 6;
#else
inline constexpr int vector_bytes = 16, rows = 6;
#endif
inline constexpr int panel_vectors = 2;

/// Number of terms accumulated in registers before they are added to the sum in memory. It alone determines the
/// summation order of an entry; block sizes and the number of threads do not.
inline constexpr Index depth = 256;

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
  /// A vector without alignment requirement.
  typedef T loose __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
using LooseVector = typename VectorOf<T>::loose;

template <class T>
inline constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));
/// Columns of the right factor in one panel.
template <class T>
inline constexpr int panel = panel_vectors* lanes<T>;
/// Rows of the left factor in one sliver, padded to whole vectors.
template <class T>
inline constexpr int sliver = (rows + lanes<T> - 1) / lanes<T>* lanes<T>;

/// The layout of a sliver of the left factor: entry (i, k) is a[k·sliver + i] if packed, a[i·step + k] if row-major,
/// a[k·step + i] if column-major.
enum class Left { packed, row_major, column_major };

/// Adds to c [count, panel], with rows `stride` apart, the product over k < terms of a sliver with `count` rows and a
/// panel with entries b[k·panel + j]. Overwrites c if `first`. Prefetches the next packed sliver, at `next`.
template <class T, int count, Left left>
void multiply(Index terms, const T* a, Index step, const T* b, T* c, Index stride, bool first, const T* next) {
  Vector<T> sums[count][panel_vectors];
  PERISCOPE_UNROLL
  for (int i = 0; i < count; ++i) {
    __builtin_prefetch(c + i * stride, 1);
    __builtin_prefetch(c + i * stride + panel<T> - 1, 1);
    PERISCOPE_UNROLL
    for (int j = 0; j < panel_vectors; ++j) sums[i][j] = Vector<T>{};
  }
  for (Index k = 0; k < terms; ++k) {
    if constexpr (left == Left::packed) {
      __builtin_prefetch(next, 0, 2);
      next += sliver<T>;
    }
    Vector<T> right[panel_vectors];
    PERISCOPE_UNROLL
    for (int j = 0; j < panel_vectors; ++j) right[j] = *reinterpret_cast<const Vector<T>*>(b + j * lanes<T>);
    PERISCOPE_UNROLL
    for (int i = 0; i < count; ++i) {
      PERISCOPE_UNROLL
      for (int j = 0; j < panel_vectors; ++j) sums[i][j] += a[left == Left::row_major ? i * step : i] * right[j];
    }
    a += left == Left::packed ? sliver<T> : left == Left::row_major ? 1 : step;
    b += panel<T>;
  }
  PERISCOPE_UNROLL
  for (int i = 0; i < count; ++i) {
    PERISCOPE_UNROLL
    for (int j = 0; j < panel_vectors; ++j) {
      auto* const out = reinterpret_cast<LooseVector<T>*>(c + i * stride + j * lanes<T>);
      *out = first ? sums[i][j] : sums[i][j] + *out;
    }
  }
}

template <class T>
using Multiply = void (*)(Index terms, const T* a, Index step, const T* b, T* c, Index stride, bool first,
                          const T* next);

template <class T, Left left>
Multiply<T> multiply_of(Index count) {
  static constexpr auto all = []<int... i>(std::integer_sequence<int, i...>) {
    return std::array<Multiply<T>, sizeof...(i)>{multiply<T, i + 1, left>...};
  }
  (std::make_integer_sequence<int, rows>{});
  return all[static_cast<std::size_t>(count - 1)];
}

/// Returns the instance of `multiply` for slivers with 1 ≤ count ≤ rows.
template <class T>
Multiply<T> multiply_of(Left left, Index count) {
  switch (left) {
    case Left::packed: return multiply_of<T, Left::packed>(count);
    case Left::row_major: return multiply_of<T, Left::row_major>(count);
    case Left::column_major: return multiply_of<T, Left::column_major>(count);
  }
  return nullptr;
}

/// Interleaves the first or second halves of a and b.
template <class T, bool second, int... i>
[[gnu::always_inline]] inline Vector<T> interleaved(Vector<T> a, Vector<T> b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, ((i % 2) * lanes<T> + i / 2 + (second ? lanes<T> / 2 : 0))...);
}

/// Transposes lanes × lanes numbers in log2(lanes) steps, each of which interleaves vectors i and i + lanes/2.
template <class T>
[[gnu::always_inline]] inline void transpose(Vector<T>* x) {
  constexpr int n = lanes<T>;
  constexpr auto each = std::make_integer_sequence<int, n>{};
  Vector<T> y[n];
  PERISCOPE_UNROLL
  for (int step = 1; step < n; step *= 2) {
    PERISCOPE_UNROLL
    for (int i = 0; i < n / 2; ++i) {
      y[2 * i] = interleaved<T, false>(x[i], x[i + n / 2], each);
      y[2 * i + 1] = interleaved<T, true>(x[i], x[i + n / 2], each);
    }
    PERISCOPE_UNROLL
    for (int i = 0; i < n; ++i) x[i] = y[i];
  }
}

/// packed[k·width + i] = x[i·row + k] for k < terms and i < count, 0 for count ≤ i < width; lanes must divide width.
template <class T>
void pack_across(const T* x, Index row, Index count, Index terms, Index width, T* packed) {
  constexpr int n = lanes<T>;
  for (Index first = 0; first < width; first += n) {
    const T* const from = x + first * row;
    const Index valid = std::clamp<Index>(count - first, 0, n);
    Index k = 0;
    for (; k + n <= terms; k += n) {
      Vector<T> square[n];
      PERISCOPE_UNROLL
      for (int i = 0; i < n; ++i) {
        square[i] = i < valid ? *reinterpret_cast<const LooseVector<T>*>(from + i * row + k) : Vector<T>{};
      }
      transpose<T>(square);
      PERISCOPE_UNROLL
      for (int i = 0; i < n; ++i) *reinterpret_cast<Vector<T>*>(packed + (k + i) * width + first) = square[i];
    }
    for (; k < terms; ++k) {
      for (Index i = 0; i < n; ++i) packed[k * width + first + i] = i < valid ? from[i * row + k] : T(0);
    }
  }
}

/// packed[k·width + i] = x[k·col + i] for k < terms and i < count, 0 for count ≤ i < width.
template <class T>
void pack_along(const T* x, Index col, Index count, Index terms, Index width, T* packed) {
  if (count == panel<T> && width == panel<T>) {  // fast path: a full panel
    for (Index k = 0; k < terms; ++k) {
      PERISCOPE_UNROLL
      for (int j = 0; j < panel_vectors; ++j) {
        *reinterpret_cast<Vector<T>*>(packed + k * panel<T> + j * lanes<T>) =
            *reinterpret_cast<const LooseVector<T>*>(x + k * col + j * lanes<T>);
      }
    }
    return;
  }
  for (Index k = 0; k < terms; ++k) {
    T* const out = packed + k * width;
    std::copy_n(x + k * col, count, out);
    std::fill(out + count, out + width, T(0));
  }
}

}  // namespace periscope::cpu::kernel
