#pragma once

#include <vector>

#include "theory/attention/grid_fit.h"
#include "theory/attention/score_path.h"

namespace periscope::theory {

/// Gradient kernels of values, queries and keys on a token grid (T9), each [p, p]; as in HeadGradients.
struct GridHeadGradients {
  Matrix value, query, key;
};

/// Gradients of attention (T9) for sequences too long for T×T matrices. Kernels cover the p tokens of a grid, patterns
/// all T tokens; storage is O(T (e + g)). Per pattern, with G = W O Wᵀ + Λ (FittedKernel):
///   values: AᵀGA in closed form: WᵀAᵀGAW = (WᵀM)ᵀO(WᵀM) + MᵀΛM for M = AW, and the diagonal X_sᵀO X_s + Σ_t Λ_t A_ts²
///           for X = WᵀA;
///   queries and keys: outer products of one draw, dq = dz k and dk = dzᵀq, where dz = Z∘(g vᵀ − row means under A).
/// The sums over all tokens are reduced to the grid by GridFit. Supports what GridAttention supports.
class GridGradients {
 public:
  /// `fit` and its grid must outlive this object.
  GridGradients(const PatternLaw& law, const TokenGrid& grid, const GridFit& fit);

  /// Returns means over `samples` patterns, in antithetic pairs that share v and g. For a uniform pattern one pass,
  /// which is exact; then queries and keys have no gradients.
  [[nodiscard]] GridHeadGradients gradients(const Matrix& k, const Matrix& of_value, const Matrix& g, int samples,
                                            PatternStream stream) const;

  /// Returns the approximate number of floating-point operations per pattern.
  static double operations(const TokenGrid& grid, bool causal, int head_dim);

 private:
  struct Head;
  class Sums;
  void add_patterns(const Head& head, int patterns, Sums& sums) const;

  const PatternLaw law_;
  const TokenGrid& grid_;
  const GridFit& fit_;
  AttentionHead head_;
};

}  // namespace periscope::theory
