#pragma once

#include <vector>

#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// A subset of tokens that represents a long sequence whose tokens differ only in position. The kernel of two different
/// tokens is then a smooth function of their positions, and T tokens have
///   K = W O Wᵀ + V C Vᵀ + D.
/// O [g, g] is the kernel of two different tokens at the positions of g nodes, W [T, g] interpolates linearly between
/// nodes, and D is diagonal: the remaining variance of each token. O has a kink along its diagonal, so within a cell,
/// between nodes i and i + 1, it is interpolated on triangles. If two tokens give node i + 1 the weights b < a, the
/// result exceeds W O Wᵀ by c·b (1 − a), where c = O_ii − 2 O_i,i+1 + O_i+1,i+1. V C Vᵀ approximates the excess by
/// c·3a(1 − a) b(1 − b), which has the same sum over the cell: C is diagonal with entries c, V [T, cells] has entries
/// √3 a(1 − a). With a causal mask the first tokens, which see few others, are single nodes, with their variance in O.
/// Every other node is a pair of neighbouring tokens, whose kernel is the diagonal entry of O. The kernel of the p grid
/// tokens thus determines K. Without a causal mask, nodes are equidistant in t and interpolation is linear in t. With a
/// causal mask, nodes are equidistant in log t and interpolation is linear in 1/t.
class TokenGrid {
 public:
  /// `refinement` multiplies the default number of nodes.
  TokenGrid(Index tokens, bool causal, double refinement = 1.0);
  /// Returns the trivial grid in which every token is a node.
  static TokenGrid of_all_tokens(Index tokens);

  [[nodiscard]] Index tokens() const { return tokens_; }  ///< T
  [[nodiscard]] const std::vector<Index>& positions() const {
    return positions_;
  }  ///< positions of the grid tokens [p]
  [[nodiscard]] Index size() const { return static_cast<Index>(positions_.size()); }  ///< p
  [[nodiscard]] Index nodes() const { return singles_ + pairs_; }                     ///< g

  /// Returns O [g, g], from the kernel of the grid tokens [p, p].
  [[nodiscard]] Matrix between(const Matrix& values) const;
  /// Inverse of `between` and of averages over pairs of neighbours: returns the kernel of the grid tokens [p, p], from
  /// O and its diagonal at the nodes [g].
  [[nodiscard]] Matrix at_grid(const Matrix& between, const Vector& diagonal) const;
  /// Returns the diagonal of C [cells], from O.
  [[nodiscard]] Vector kinks(const Matrix& between) const;
  /// Interpolates values at the grid tokens [p] to all tokens [T].
  [[nodiscard]] Vector all(const Vector& values) const;
  /// Returns the diagonal of W O Wᵀ + V C Vᵀ [T].
  [[nodiscard]] Vector diagonal(const Matrix& between, const Vector& kinks) const;
  /// Returns the mean over all tokens, from values at the grid tokens [p].
  [[nodiscard]] double mean(const Vector& values) const { return weights_.dot(values); }
  /// Returns the mean over all pairs of different tokens, from a symmetric matrix [p, p]. NaN for one token.
  [[nodiscard]] double mean_of_pairs(const Matrix& values) const;

  /// Tokens `first` … `end` − 1 lie between nodes `node` and `node` + 1.
  struct Cell {
    Index node, first, end;
  };
  [[nodiscard]] const std::vector<Cell>& cells() const { return cells_; }
  [[nodiscard]] Index singles() const { return singles_; }
  /// Returns the single that is token t, or the lower node of its cell.
  [[nodiscard]] Index lower_node(Index t) const { return lower_[static_cast<std::size_t>(t)]; }
  /// Weight of each token's upper node in W [T], 0 for singles; the lower node has weight 1 − upper_weight.
  [[nodiscard]] const Eigen::VectorXf& upper_weight() const { return upper_; }
  /// Weight of each token's cell in V [T], 0 for singles.
  [[nodiscard]] const Eigen::VectorXf& kink_weight() const { return kink_; }
  /// Sum of b (1 − a) over ordered pairs of different tokens of every cell [cells].
  [[nodiscard]] const Vector& kink_sums() const { return kink_sums_; }

  /// Adds W X + V Y to `rows` [T, n], for X [g, n] and Y [cells, n].
  void add_interpolated(Eigen::MatrixXf& rows, const Eigen::MatrixXf& nodes, const Eigen::MatrixXf& kinks) const;
  /// Adds Wᵀx to `sums` [g], for values x of the first tokens.
  void add_node_sums(const Eigen::Ref<const Eigen::VectorXf>& x, Eigen::Ref<Eigen::VectorXf> sums) const;

 private:
  TokenGrid() = default;
  void interpolate(const Vector& coordinate);
  [[nodiscard]] Index first_of(Index node) const { return node < singles_ ? node : singles_ + 2 * (node - singles_); }
  [[nodiscard]] Vector of_nodes(const Vector& values) const;

  Index tokens_ = 0;
  Index singles_ = 0;
  Index pairs_ = 0;
  std::vector<Index> positions_;
  std::vector<Cell> cells_;
  std::vector<Index> lower_;
  Eigen::VectorXf upper_, kink_;
  Vector kink_sums_;
  Vector weights_;       // weights of the grid tokens in a mean [p], sum 1
  Matrix pair_weights_;  // weights of pairs of nodes in a mean over pairs of different tokens [g, g]
};

}  // namespace periscope::theory
