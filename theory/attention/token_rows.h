#pragma once

#include "theory/attention/attention_head.h"
#include "theory/attention/token_grid.h"

namespace periscope::theory {

/// Gaussian rows of all T tokens, with the kernel W O Wᵀ + V C Vᵀ + D of a forward pass on a grid (TokenGrid), in units
/// of its scale. Negative eigenvalues of O and entries of C, possible for averages over few patterns, are set to 0.
class TokenRows {
 public:
  enum class Centred { no, yes };
  /// `k`: kernel of the grid tokens [p, p]. Centred rows lack parts that are equal for all tokens, which the Jacobian
  /// of softmax removes; they are exactly 0 for equal tokens. The grid must outlive this object.
  TokenRows(const Matrix& k, const TokenGrid& grid, Centred centred = Centred::no);

  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] const Vector& unit() const { return unit_; }  ///< diagonal of the kernel, not centred [T]
  /// Draws rows [T, features].
  [[nodiscard]] Sample draw(Index features, NormalStream& numbers) const;

 private:
  const TokenGrid& grid_;
  double scale_;
  Vector unit_;
  Sample factor_;             // F with F Fᵀ = O
  Eigen::VectorXf kinks_;     // diagonal of √C
  Eigen::VectorXf residual_;  // diagonal of √D
};

/// Returns F with F Fᵀ = x. Negative eigenvalues are set to 0.
Matrix eigen_factor_of(const Matrix& x);

/// Returns the diagonal of C (TokenGrid), with negative entries, possible by noise or rounding, set to 0.
Vector kinks_of(const Matrix& between, const TokenGrid& grid);

/// Returns the variance not explained by `shared`, (all − shared)/scale [T]; 0 if it is only rounding error.
Vector residual_variance(const Vector& all, const Vector& shared, double scale);

}  // namespace periscope::theory
