#pragma once

#include <span>

#include "theory/kernels/gaussian.h"

namespace periscope::theory {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// a bᵀ for a [m, n], b [k, n]. The same bits for any number of threads, like gram_of.
RowMatrix product_transposed(const RowMatrix& a, const RowMatrix& b);
/// a aᵀ for a [m, n].
RowMatrix gram_of(const RowMatrix& a);

/// ‖W‖₂ of a row-major matrix [rows, cols], to rounding.
double spectral_norm(std::span<const double> w, int rows, int cols);

/// A proved upper bound on ‖A‖₂, about 0.1 % above it. Power iteration on the smaller Gram matrix G finds a λ; that
/// μ = λ·1.002 bounds the largest eigenvalue is proved by a Cholesky factorisation of μI − G that ends: in floating
/// point it can only do so if the smallest eigenvalue is at least −(n+2)·2⁻⁵²·trace (Rump, BIT 46, 2006), which is
/// added, as is the rounding of G. If it does not end μ grows, up to the Frobenius norm, which needs no proof.
/// Matrices are first scaled by a power of two, so that neither the Gram matrix nor a guess overflows or underflows.
/// Infinite or NaN entries give infinity.
double spectral_bound(const RowMatrix& a);

/// Bounds the largest eigenvalue of a Gram matrix A Aᵀ [n, n] that was summed over `terms` columns.
double largest_eigenvalue_bound(const RowMatrix& gram, Index terms);

}  // namespace periscope::theory
