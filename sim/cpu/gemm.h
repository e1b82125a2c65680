#pragma once

#include <functional>

#include "sim/core/storage.h"

/// Matrix products in f32 and f64. The summation order of an entry depends only on its number of terms. Results do not
/// depend on the number of threads, and a row does not depend on the number of other rows.
namespace periscope::cpu {

using Index = Tensor::Index;

/// A matrix with entry (i, j) at data[i·row + j·col]. One of the strides is 1.
template <class T>
struct MatrixView {
  const T* data;
  Index row;
  Index col = 1;

  [[nodiscard]] MatrixView transposed() const { return {data, col, row}; }
  /// Returns the submatrix that starts at entry (i, j).
  [[nodiscard]] MatrixView from(Index i, Index j) const { return {data + i * row + j * col, row, col}; }
};

template <class T>
MatrixView<T> view_of(const Tensor& x) {
  return {elements<T>(x), x.cols()};
}

inline constexpr Index widest_block = 256;  ///< max columns of a block; with 256 terms, it fits the cache of a core

/// A callback that generates a right factor [k, n] block by block: writes entries (first_k … first_k + terms − 1,
/// first … first + count − 1) like packed_block, count ≤ widest_block. Called once per block, by any thread.
template <class T>
using MakeBlock = std::function<void(Index first_k, Index terms, Index first, Index count, T* block)>;

/// Packs entries (0 … terms − 1, 0 … count − 1) of b: entry (k, j) of the panel that starts at column p is
/// block[p·terms + k·panel + j − p], with zeros after the last column.
template <class T>
void packed_block(const MatrixView<T>& b, Index terms, Index count, T* block);

/// Whether a product overwrites C or is added to it.
enum class Output { overwrite, accumulate };

/// The required entries of a square product; the others are unspecified.
enum class Part { all, lower };

/// C = A B, or C += A B (accumulate), on all threads: A [m, k], B [k, n], C [m, n] with rows `stride` apart; sizes ≥ 1.
template <class T>
void gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MatrixView<T>& b, T* c, Index stride,
          Part part = Part::all, Output output = Output::overwrite);
template <class T>
void gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MakeBlock<T>& b, T* c, Index stride);

/// C = A B, or C += A B for Output::accumulate, on the calling thread.
template <class T>
void serial_gemm(Index m, Index n, Index k, const MatrixView<T>& a, const MatrixView<T>& b, T* c, Index stride,
                 Output output = Output::overwrite);

}  // namespace periscope::cpu
