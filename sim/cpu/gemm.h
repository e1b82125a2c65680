#pragma once

#include <functional>

#include "sim/core/storage.h"

/// Matrix products of f32 and f64. The order in which an entry is summed follows from its number of terms alone:
/// results do not depend on the number of threads, nor a row on the number of other rows.
namespace periscope::cpu {

using Index = Tensor::Index;

/// A matrix in memory, entry (i, j) of which is data[i·row + j·col]. One of the strides is 1.
template <class T>
struct MatrixView {
  const T* data;
  Index row;
  Index col = 1;

  [[nodiscard]] MatrixView transposed() const { return {data, col, row}; }
  /// The matrix that begins with entry (i, j).
  [[nodiscard]] MatrixView from(Index i, Index j) const { return {data + i * row + j * col, row, col}; }
};

template <class T>
MatrixView<T> view_of(const Tensor& x) {
  return {elements<T>(x), x.cols()};
}

inline constexpr Index widest_block = 256;  ///< columns: a block of so many, 256 deep, stays in a core's cache

/// A right factor [k, n] that is made block by block: writes the entries (first_k … first_k + terms − 1, first … first
/// + count − 1) as packed_block (below), count ≤ widest_block. Called on any thread, once for every block.
template <class T>
using MakeBlock = std::function<void(Index first_k, Index terms, Index first, Index count, T* block)>;

/// Writes entries (0 … terms − 1, 0 … count − 1) of b as MakeBlock must.
template <class T>
void packed_block(const MatrixView<T>& b, Index terms, Index count, T* block);

/// Whether a product overwrites its target or is added to it.
enum class Output { overwrite, accumulate };

/// The entries of a square product that are needed; others may be written too.
enum class Part { all, lower };

/// C = A B on all threads: A [m, k], B [k, n], C [m, n] with rows `stride` apart. m, n, k ≥ 1.
template <class T>
void gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MatrixView<T>& b, T* c, Index stride,
          Part part = Part::all);
template <class T>
void gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MakeBlock<T>& b, T* c, Index stride);

/// C = A B or C + A B on this thread alone.
template <class T>
void serial_gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MatrixView<T>& b, T* c, Index stride,
                 Output output = Output::overwrite);

}  // namespace periscope::cpu
