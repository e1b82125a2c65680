#include "sim/cpu/gemm.h"

#include <omp.h>

#include <algorithm>

#include "sim/base/first_exception.h"
#include "sim/cpu/gemm_kernel.h"
#include "sim/cpu/scratch.h"

namespace periscope::cpu {
namespace {

/// Returns size / piece, rounded up.
Index pieces(Index size, Index piece) { return (size + piece - 1) / piece; }

template <class T>
void pack(const MatrixView<T>& x, Index count, Index terms, Index width, T* packed) {
  if (x.col == 1) {
    kernel::pack_across(x.data, x.row, count, terms, width, packed);
  } else {
    kernel::pack_along(x.data, x.col, count, terms, width, packed);
  }
}

/// The left factor [m, k] of a product with n columns, split into slivers of rows. Slivers of small matrices are read
/// in place, since packing would cost more than it saves. Otherwise they are packed: all slivers of the first `depth`
/// terms, then all slivers of the next, and so on. The result does not depend on the layout.
template <class T>
class LeftFactor {
 public:
  LeftFactor(const MatrixView<T>& a, Index m, Index n, Index k)
      : a_(a),
        m_(m),
        k_(k),
        slivers_(pieces(m, kernel::rows)),
        layout_(std::max(n, k) > small ? kernel::Left::packed
                : a.col == 1           ? kernel::Left::row_major
                                       : kernel::Left::column_major),
        packed_(layout_ == kernel::Left::packed ? slivers_ * kernel::sliver<T> * k : 1) {}

  [[nodiscard]] Index slivers() const { return slivers_; }
  [[nodiscard]] Index rows_of(Index s) const { return std::min<Index>(kernel::rows, m_ - s * kernel::rows); }
  [[nodiscard]] const T* at(Index first_k, Index terms, Index s) const {
    return layout_ == kernel::Left::packed ? place(first_k, terms, s) : a_.from(s * kernel::rows, first_k).data;
  }
  [[nodiscard]] kernel::Left layout() const { return layout_; }
  /// Returns the row or column stride, the argument `step` of kernel::multiply.
  [[nodiscard]] Index step() const { return layout_ == kernel::Left::row_major ? a_.row : a_.col; }
  /// Packs all terms of sliver s; does nothing if slivers are read in place.
  void pack_sliver(Index s) const {
    if (layout_ != kernel::Left::packed) return;
    for (Index first_k = 0; first_k < k_; first_k += kernel::depth) {
      const Index terms = std::min(kernel::depth, k_ - first_k);
      pack(a_.from(s * kernel::rows, first_k), rows_of(s), terms, kernel::sliver<T>, place(first_k, terms, s));
    }
  }

 private:
  static constexpr Index small = 1024;

  [[nodiscard]] T* place(Index first_k, Index terms, Index s) const {
    return packed_.data() + (first_k * slivers_ + s * terms) * kernel::sliver<T>;
  }

  MatrixView<T> a_;
  Index m_, k_, slivers_;
  kernel::Left layout_;
  Scratch<T> packed_;
};

template <class T>
struct Target {
  T* c;
  Index stride;
  Output output;
  Part part;
};

/// A piece of a product: slivers first_sliver … end_sliver − 1 and columns first … first + count − 1.
struct Piece {
  Index first_sliver, end_sliver, first, count;
};

/// Multiplies sliver s of `left` with one packed panel of `count` ≤ kernel::panel columns.
template <class T>
void multiply_panel(const LeftFactor<T>& left, Index s, const T* a, Index terms, const T* b, Index count, bool first,
                    const T* next, T* c, Index stride) {
  const Index rows = left.rows_of(s);
  const kernel::Multiply<T> multiply = kernel::multiply_of<T>(left.layout(), rows);
  if (count == kernel::panel<T>) return multiply(terms, a, left.step(), b, c, stride, first, next);
  alignas(kernel::vector_bytes) T whole[kernel::rows * kernel::panel<T>];
  multiply(terms, a, left.step(), b, whole, kernel::panel<T>, true, next);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < count; ++j) {
      T& entry = c[i * stride + j];
      entry = whole[i * kernel::panel<T> + j] + (first ? T(0) : entry);
    }
  }
}

/// Multiplies slivers with a packed block of the right factor. A panel stays in the L1 cache while it is multiplied
/// with all slivers of a group, which fit the L2 cache.
template <class T>
void multiply_block(const LeftFactor<T>& left, const Piece& p, Index first_k, Index terms, const T* block,
                    const Target<T>& to) {
  constexpr Index group = 16;  // slivers per group
  const bool first_terms = first_k == 0 && to.output == Output::overwrite;
  for (Index begin = p.first_sliver; begin < p.end_sliver; begin += group) {
    const Index end = std::min(begin + group, p.end_sliver);
    for (Index j = 0; j < p.count; j += kernel::panel<T>) {
      const Index count = std::min<Index>(kernel::panel<T>, p.count - j);
      for (Index s = begin; s < end; ++s) {
        const Index top = s * kernel::rows;
        if (to.part == Part::lower && p.first + j > top + left.rows_of(s) - 1) continue;
        const T* const next = left.at(first_k, terms, s + 1 < end ? s + 1 : begin);
        multiply_panel(left, s, left.at(first_k, terms, s), terms, block + j * terms, count, first_terms, next,
                       to.c + top * to.stride + p.first + j, to.stride);
      }
    }
  }
}

template <class T, class Make>
void multiply_piece(const LeftFactor<T>& left, const Piece& p, Index k, const Make& make, T* block,
                    const Target<T>& to) {
  for (Index first_k = 0; first_k < k; first_k += kernel::depth) {
    const Index terms = std::min(kernel::depth, k - first_k);
    make(first_k, terms, p.first, p.count, block);
    multiply_block(left, p, first_k, terms, block, to);
  }
}

/// Returns the number of columns per block of a product [·, n]; about 16 blocks balance the load of a team of threads.
template <class T>
Index block_columns(Index n, bool team) {
  const Index part = team ? pieces(n, 16) : n;
  return std::clamp<Index>(pieces(part, kernel::panel<T>) * kernel::panel<T>, kernel::panel<T>, widest_block);
}

/// Computes a product in parallel pieces. With `may_split`, several pieces may generate the same right-hand block.
template <class T, class Make>
void gemm_of(Index m, Index n, Index k, const MatrixView<T>& a, const Make& make, const Target<T>& to, bool may_split) {
  constexpr Index min_slivers = 16;              // minimum per piece, so that the cost of repeated packing is small
  constexpr Index min_parallel_work = 1L << 18;  // minimum number of multiplications for several threads
  const LeftFactor<T> left(a, m, n, k);
  const bool team = m * n * k > min_parallel_work && omp_in_parallel() == 0 && omp_get_max_threads() > 1;
  const Index columns = block_columns<T>(n, team);
  const Index across = pieces(n, columns);
  const Index wanted = may_split && team ? std::clamp<Index>(left.slivers() / min_slivers, 1, pieces(16, across)) : 1;
  const Index height = pieces(left.slivers(), wanted);
  const Index down = pieces(left.slivers(), height);
  const Index block_size = columns * kernel::depth;
  const Scratch<T> blocks(block_size * (team ? omp_get_max_threads() : 1));
  FirstException failure;
#pragma omp parallel if (team)
  {
#pragma omp for schedule(static)
    for (Index s = 0; s < left.slivers(); ++s) left.pack_sliver(s);
#pragma omp for schedule(dynamic, 1)
    for (Index i = 0; i < across * down; ++i) {
      failure.run([&] {
        const Index first = i % across * columns;
        const Index first_sliver = i / across * height;
        const Piece piece{first_sliver, std::min(left.slivers(), first_sliver + height), first,
                          std::min(columns, n - first)};
        multiply_piece(left, piece, k, make, blocks.data() + block_size * omp_get_thread_num(), to);
      });
    }
  }
  failure.rethrow();
}

template <class T>
auto block_of(const MatrixView<T>& b) {
  return [b](Index first_k, Index terms, Index first, Index count, T* block) {
    packed_block(b.from(first_k, first), terms, count, block);
  };
}

}  // namespace

template <class T>
void packed_block(const MatrixView<T>& b, Index terms, Index count, T* block) {
  for (Index j = 0; j < count; j += kernel::panel<T>) {
    const Index width = std::min<Index>(kernel::panel<T>, count - j);
    pack(b.from(0, j).transposed(), width, terms, Index{kernel::panel<T>}, block + j * terms);
  }
}

template <class T>
void gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MatrixView<T>& b, T* c, Index stride, Part part,
          Output output) {
  gemm_of<T>(m, n, k, a, block_of(b), {c, stride, output, part}, true);
}

template <class T>
void gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MakeBlock<T>& b, T* c, Index stride) {
  gemm_of<T>(m, n, k, a, b, {c, stride, Output::overwrite, Part::all}, false);
}

template <class T>
void serial_gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MatrixView<T>& b, T* c, Index stride,
                 Output output) {
  const LeftFactor<T> left(a, m, n, k);
  for (Index s = 0; s < left.slivers(); ++s) left.pack_sliver(s);
  const Scratch<T> block(std::min(widest_block, pieces(n, kernel::panel<T>) * kernel::panel<T>) *
                         std::min(kernel::depth, k));
  for (Index first = 0; first < n; first += widest_block) {
    multiply_piece<T>(left, {0, left.slivers(), first, std::min(widest_block, n - first)}, k, block_of(b), block.data(),
                      {c, stride, output, Part::all});
  }
}

template void packed_block(const MatrixView<float>&, Index, Index, float*);
template void packed_block(const MatrixView<double>&, Index, Index, double*);
template void gemm(Index, Index, Index, const MatrixView<float>&, const MatrixView<float>&, float*, Index, Part,
                   Output);
template void gemm(Index, Index, Index, const MatrixView<double>&, const MatrixView<double>&, double*, Index, Part,
                   Output);
template void gemm(Index, Index, Index, const MatrixView<float>&, const MakeBlock<float>&, float*, Index);
template void gemm(Index, Index, Index, const MatrixView<double>&, const MakeBlock<double>&, double*, Index);
template void serial_gemm(Index, Index, Index, const MatrixView<float>&, const MatrixView<float>&, float*, Index,
                          Output);
template void serial_gemm(Index, Index, Index, const MatrixView<double>&, const MatrixView<double>&, double*, Index,
                          Output);

}  // namespace periscope::cpu
