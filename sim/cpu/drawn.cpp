#include <algorithm>
#include <span>

#include "sim/cpu/gemm.h"
#include "sim/cpu/gemm_kernel.h"
#include "sim/cpu/ops.h"
#include "sim/random/normal.h"

/// Products with random matrices, which are generated just before use, in blocks that fit the cache.
namespace periscope {
namespace cpu {
namespace {

template <class T>
void draw(const DrawnMatrix& w, Index row, Index col, std::span<T> out) {
  const auto first = static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(w.cols);
  fill_normal<T>(w.key, first + static_cast<std::uint64_t>(col), w.stddev, out);
}

/// Generates Wᵀ [in, out] as a right factor: draws the features of one panel row by row and packs them.
template <class T>
MakeBlock<T> transposed(const DrawnMatrix& w) {
  return [w](Index first_k, Index terms, Index first, Index count, T* block) {
    constexpr Index panel = kernel::panel<T>;
    alignas(kernel::vector_bytes) T rows[panel * kernel::depth];
    for (Index j = 0; j < count; j += panel) {
      const Index width = std::min(panel, count - j);
      for (Index r = 0; r < width; ++r) {
        draw<T>(w, first + j + r, first_k, {rows + r * kernel::depth, static_cast<std::size_t>(terms)});
      }
      packed_block<T>(MatrixView<T>{rows, kernel::depth}.transposed(), terms, width, block + j * terms);
    }
  };
}

/// Generates W [out, in] as a right factor: draws every row of the block and distributes it to the panels.
template <class T>
MakeBlock<T> untransposed(const DrawnMatrix& w) {
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

using cpu::with_type_of;

void CpuBackend::run(const op::LinearDrawn& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    cpu::gemm<T>(o.x.rows(), o.w.rows, o.w.cols, {elements<T>(o.x), o.w.cols}, cpu::transposed<T>(o.w),
                 elements<T>(o.y), o.w.rows);
  });
}

void CpuBackend::run(const op::LinearDrawnBackwardInput& o) const {
  with_type_of(o.dy, [&]<class T>(T) {
    cpu::gemm<T>(o.dy.rows(), o.w.cols, o.w.rows, {elements<T>(o.dy), o.w.rows}, cpu::untransposed<T>(o.w),
                 elements<T>(o.dx), o.w.cols);
  });
}

}  // namespace periscope
