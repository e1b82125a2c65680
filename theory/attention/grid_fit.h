#pragma once

#include "theory/attention/token_grid.h"

namespace periscope::theory {

/// A gradient kernel of all tokens, G = W O Wᵀ + Λ (TokenGrid). Λ is 0 for singles, whose variance is in O.
struct FittedKernel {
  Matrix between;    ///< O [g, g]
  Vector remainder;  ///< diagonal of Λ [T]
};

/// Returns Wᵀ diag(x) W [g, g].
Matrix node_products(const TokenGrid& grid, const Vector& x);

/// Converts gradient kernels between all T tokens and the p tokens of a grid. The fit O of a kernel G minimises
/// Σ_{t≠t'} (G − W O Wᵀ)²_tt'. With N = WᵀW and Λ from the diagonal of G, WᵀGW = N O N + WᵀΛW, so the fit preserves
/// the sum over all pairs of tokens, also weighted by any kernel W X Wᵀ. It is linear in G, so noise causes no bias.
class GridFit {
 public:
  /// The grid must outlive this object.
  explicit GridFit(const TokenGrid& grid);

  [[nodiscard]] const TokenGrid& grid() const { return grid_; }
  /// Returns the kernel of all tokens, from that of the grid tokens [p, p]. V C Vᵀ is replaced by its fit, with V
  /// scaled so that TokenGrid::mean_of_pairs is preserved.
  [[nodiscard]] FittedKernel fitted(const Matrix& values) const;
  /// Returns the kernel of the grid tokens [p, p], from WᵀGW [g, g] and the diagonal of G [T].
  [[nodiscard]] Matrix restricted(const Matrix& node_sums, const Vector& diagonal) const;

 private:
  // The band of a symmetric matrix [g, g] is a vector [2g − 1]: its diagonal, then the entries next to it.
  [[nodiscard]] Vector band_of(const Matrix& x) const;
  /// Returns N⁻¹ X N⁻¹.
  [[nodiscard]] Matrix solved(const Matrix& x) const { return inverse_ * x * inverse_; }
  [[nodiscard]] Matrix tridiagonal(const Vector& band) const;

  const TokenGrid& grid_;
  Matrix inverse_;  // N⁻¹ [g, g]
  Matrix kinks_;    // band of O ↦ band of WᵀV C VᵀW
  Matrix correction_;  // band of N⁻¹(WᵀGW − Wᵀ diag(G) W)N⁻¹ ↦ band of Wᵀ diag(W O Wᵀ) W − WᵀV C VᵀW
};

}  // namespace periscope::theory
