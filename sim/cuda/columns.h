#pragma once

#include "sim/cuda/launch.h"

/// Column-wise reductions over the rows of a matrix, in double.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The term x_ij of a sum over the rows of x.
template <class T>
struct ElementInDouble {
  In<T> x;
  Index cols;
  PERISCOPE_HOST_DEVICE double operator()(Index row, Index j) const {
    return static_cast<double>(widen(x[row * cols + j]));
  }
};

struct Add {
  PERISCOPE_HOST_DEVICE double operator()(double a, double b) const { return a + b; }
};
struct Max {
  PERISCOPE_HOST_DEVICE double operator()(double a, double b) const { return a < b ? b : a; }
};

/// Number of rows of a column that one thread combines.
inline constexpr Index piece_rows = 64;

/// Computes partial[piece, j]: the sum of the terms of one piece of column j, in row order.
template <class Term>
struct SumPieces {
  Term term;
  Index rows, cols;
  Out<double> partial;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const Index j = i % cols;
    const Index first = i / cols * piece_rows;
    const Index end = first + piece_rows < rows ? first + piece_rows : rows;
    double sum = 0.0;
    for (Index row = first; row < end; ++row) sum += term(row, j);
    partial[i] = sum;
  }
};

template <class T, class Combine>
struct CombinePieces {
  In<double> partial;
  Combine combine;
  Index pieces, cols;
  Out<T> out;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const In<double> own = partial + i / cols * pieces * cols + i % cols;
    double value = 0.0;
    for (Index piece = 0; piece < pieces; ++piece) value = combine(value, own[piece * cols]);
    out[i] = from_double<T>(value);
  }
};

/// Combines the pieces of every part: partial [parts, pieces, cols], out [parts, cols].
template <class T, class Combine>
void combine_pieces(const Execution& execution, const double* partial, const Combine& combine, Index parts,
                    Index pieces, Index cols, T* out) {
  for_each(execution, parts * cols, CombinePieces<T, Combine>{partial, combine, pieces, cols, out});
}

/// out_j = Σ_i term(i, j) for i < rows. The order depends only on `rows`.
template <class T, class Term>
void sum_columns(const Execution& execution, Index rows, Index cols, const Term& term, T* out) {
  const Index pieces = ceil_div(rows, piece_rows);
  const std::shared_ptr<double> partial = execution.take_array<double>(pieces * cols);
  for_each(execution, pieces * cols, SumPieces<Term>{term, rows, cols, partial.get()});
  combine_pieces(execution, partial.get(), Add{}, 1, pieces, cols, out);
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
