#pragma once

#include <span>

#include "theory/kernels/gaussian.h"

namespace periscope::theory {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Returns a bᵀ for a [m, n], b [k, n]; bitwise reproducible for any number of threads.
RowMatrix product_transposed(const RowMatrix& a, const RowMatrix& b);
/// Returns a aᵀ for a [m, n]; bitwise reproducible for any number of threads.
RowMatrix gram_of(const RowMatrix& a);

/// Returns ‖W‖₂ of a row-major matrix [rows, cols], up to rounding.
double spectral_norm(std::span<const double> w, int rows, int cols);

/// Returns a rigorous upper bound on ‖A‖₂, about 0.1 % above it. Power iteration on the smaller Gram matrix G estimates
/// its largest eigenvalue λ. A successful Cholesky factorisation of μI − G proves the bound μ = 1.002·λ: in floating
/// point it implies that the smallest eigenvalue is at least −(n+2)·2⁻⁵²·trace (Rump, BIT 46, 2006). This error and
/// the rounding error of G are added. If the factorisation fails, μ is increased, up to the Frobenius norm, which needs
/// no proof. A is first scaled by a power of two to avoid overflow and underflow. Infinity and NaN give infinity.
double spectral_bound(const RowMatrix& a);

/// Bounds the largest eigenvalue of a Gram matrix A Aᵀ [n, n], where A has `terms` columns.
double largest_eigenvalue_bound(const RowMatrix& gram, Index terms);

}  // namespace periscope::theory
