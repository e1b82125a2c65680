#pragma once

#include <vector>

#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// A few tokens that represent a sequence whose tokens differ by their positions alone. The kernel of two different
/// tokens is then a smooth function of their positions, and T tokens have
///   K = W O Wᵀ + V C Vᵀ + D,
/// O the kernel of two different tokens at the positions of g nodes, W [T, g] linear interpolation between the nodes,
/// and D diagonal, the rest of a token's own variance. O has a fold along its diagonal, so within a cell, between nodes
/// i and i + 1, it is interpolated on triangles: for shares b < a of node i + 1 that is c·b (1 − a) more than W O Wᵀ,
/// c = O_ii − 2 O_i,i+1 + O_i+1,i+1. Sums over tokens use c·3a(1 − a) b(1 − b), which has the same sum over the cell: C
/// is diagonal, of c, and V [T, cells] of √3 a(1 − a). The first tokens, which see few others under a causal mask, are
/// nodes of their own, with their variance in O. Every other node is a pair of neighbours, whose kernel is O's diagonal
/// entry, so the kernel of the p kept tokens determines all. Nodes are equidistant in log t under a causal mask, where
/// interpolation is linear in 1/t, and else equidistant in t.
class TokenGrid {
 public:
  /// `fineness` times as many nodes as usual.
  TokenGrid(Index tokens, bool causal, double fineness = 1.0);
  /// Every token for itself.
  static TokenGrid of_all_tokens(Index tokens);

  [[nodiscard]] Index tokens() const { return tokens_; }                         ///< T
  [[nodiscard]] const std::vector<Index>& kept() const { return kept_; }         ///< positions of the kept tokens [p]
  [[nodiscard]] Index size() const { return static_cast<Index>(kept_.size()); }  ///< p
  [[nodiscard]] Index nodes() const { return singles_ + pairs_; }                ///< g

  /// O [g, g], from the kernel of the kept tokens [p, p].
  [[nodiscard]] Matrix between(const Matrix& kept) const;
  /// C's diagonal [cells], from O.
  [[nodiscard]] Vector folds(const Matrix& between) const;
  /// Interpolates a number of every token [p] to all tokens [T].
  [[nodiscard]] Vector all(const Vector& kept) const;
  /// The diagonal of W O Wᵀ + V C Vᵀ [T].
  [[nodiscard]] Vector diagonal(const Matrix& between, const Vector& folds) const;
  /// The mean over all tokens.
  [[nodiscard]] double mean(const Vector& kept) const { return weights_.dot(kept); }
  /// The mean over all pairs of different tokens, from a symmetric [p, p]. NaN for one token.
  [[nodiscard]] double mean_of_pairs(const Matrix& kept) const;

  /// Tokens `first` … `end` − 1 lie between nodes `node` and `node` + 1; upper_share() says how near to the second.
  struct Cell {
    Index node, first, end;
  };
  [[nodiscard]] const std::vector<Cell>& cells() const { return cells_; }
  [[nodiscard]] Index singles() const { return singles_; }
  /// W's entry of node + 1 of a token's cell, 0 for singles [T]; that of `node` is the rest to 1.
  [[nodiscard]] const Eigen::VectorXf& upper_share() const { return upper_; }
  /// V's entry of a token's cell, 0 for singles [T].
  [[nodiscard]] const Eigen::VectorXf& fold_share() const { return fold_; }

 private:
  TokenGrid() = default;
  void interpolate(const Vector& coordinate);
  [[nodiscard]] Index first_of(Index node) const { return node < singles_ ? node : singles_ + 2 * (node - singles_); }
  [[nodiscard]] Vector of_nodes(const Vector& kept) const;

  Index tokens_ = 0;
  Index singles_ = 0;
  Index pairs_ = 0;
  std::vector<Index> kept_;
  std::vector<Cell> cells_;
  Eigen::VectorXf upper_, fold_;
  Vector weights_;       // of the kept tokens, summing to 1
  Matrix pair_weights_;  // of pairs of nodes, for different tokens
};

}  // namespace periscope::theory
