#include <algorithm>
#include <span>

#include "sim/cpu/gemm.h"
#include "sim/cpu/gemm_kernel.h"
#include "sim/cpu/ops.h"
#include "sim/random/normal.h"

/// Products with matrices that are drawn block by block, each block just before it is used, while it is in the cache.
namespace periscope {
namespace cpu {
namespace {

template <class T>
void draw(const DrawnMatrix& w, Index row, Index col, std::span<T> out) {
  const auto first = static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(w.cols);
  fill_normal<T>(w.key, first + static_cast<std::uint64_t>(col), w.stddev, out);
}

/// Wᵀ [in, out] as a right factor: the features of one panel are drawn row by row and packed.
template <class T>
MakeBlock<T> transposed(const DrawnMatrix& w) {
  return [w](Index first_k, Index terms, Index first, Index count, T* block) {
    constexpr Index panel = kernel::panel<T>;
    alignas(kernel::vector_bytes) T rows[panel * kernel::depth];
    for (Index j = 0; j < count; j += panel) {
      const Index here = std::min(panel, count - j);
      for (Index r = 0; r < here; ++r) {
        draw<T>(w, first + j + r, first_k, {rows + r * kernel::depth, static_cast<std::size_t>(terms)});
      }
      packed_block<T>(MatrixView<T>{rows, kernel::depth}.transposed(), terms, here, block + j * terms);
    }
  };
}

/// W [out, in] as a right factor: a row of the block is drawn whole and falls into its panels.
template <class T>
MakeBlock<T> as_it_is(const DrawnMatrix& w) {
  return [w](Index first_k, Index terms, Index first, Index count, T* block) {
    constexpr Index panel = kernel::panel<T>;
    alignas(kernel::vector_bytes) T row[widest_block + panel];
    std::fill(row + count, row + count + panel, T(0));
    for (Index k = 0; k < terms; ++k) {
      draw<T>(w, first_k + k, first, {row, static_cast<std::size_t>(count)});
      for (Index j = 0; j < count; j += panel) std::copy_n(row + j, panel, block + j * terms + k * panel);
    }
  };
}

}  // namespace
}  // namespace cpu

// -------------------------------------------------------------------------------------------------

using cpu::with_type_of;

void CpuBackend::do_linear_drawn(const Tensor& x, const DrawnMatrix& w, Tensor& y) const {
  with_type_of(x, [&]<class T>(T) {
    cpu::gemm<T>(x.rows(), w.rows, w.cols, {elements<T>(x), w.cols}, cpu::transposed<T>(w), elements<T>(y), w.rows);
  });
}

void CpuBackend::do_linear_drawn_backward_input(const Tensor& dy, const DrawnMatrix& w, Tensor& dx) const {
  with_type_of(dy, [&]<class T>(T) {
    cpu::gemm<T>(dy.rows(), w.cols, w.rows, {elements<T>(dy), w.rows}, cpu::as_it_is<T>(w), elements<T>(dx), w.cols);
  });
}

}  // namespace periscope
